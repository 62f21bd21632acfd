"""The choice on shared nodes: which nodes, which jobs, in which ways."""

from makeway.policies.choice.choose import choose
from makeway.policies.choice.instance import Choice
from makeway.policies.model import Method
from tests.policies.choice.instances import application, instance, kill, occupant, system


def leavers(choice: Choice | None) -> dict[str, Method] | None:
    if choice is None:
        return None
    return {leaving.occupant.job_id: leaving.way.method for leaving in choice.leaving}


def test_one_job_leaves_where_a_gpu_is_free_already() -> None:
    jobs = [occupant(f"a{index}", {"n0": {"cpu": 8, "gres/gpu": 1}}, kill(10)) for index in range(4)]
    other = occupant("b", {"n1": {"cpu": 8, "gres/gpu": 1}}, kill(15))
    free = {"n0": {}, "n1": {"cpu": 4, "gres/gpu": 1}}
    choice = choose(instance(free, {"cpu": 8, "gres/gpu": 2}, 1, *jobs, other))
    assert choice is not None
    assert (choice.nodes, leavers(choice)) == (("n1",), {"b": Method.KILL})
    assert (choice.loss_node_s, choice.bound_node_s, choice.proven) == (15, 15, True)


def test_a_protected_neighbour_stays() -> None:
    jobs = [
        occupant("1", {"n0": {"cpu": 4}}),
        occupant("2", {"n0": {"cpu": 1}}, kill(50)),
        occupant("3", {"n0": {"cpu": 1}}, kill(40)),
    ]
    assert leavers(choose(instance({"n0": {}}, {"cpu": 1}, 1, *jobs))) == {"3": Method.KILL}


def test_a_job_on_several_chosen_nodes_is_paid_for_once() -> None:
    wide = occupant("w", {"n0": {"cpu": 4}, "n1": {"cpu": 4}}, kill(30))
    narrow = [occupant(f"s{index}", {f"n{index}": {"cpu": 4}}, kill(20)) for index in range(3)]
    asked = instance({"n0": {}, "n1": {}, "n2": {}}, {"cpu": 4}, 2, wide, *narrow)
    choice = choose(asked)
    assert choice is not None
    assert (choice.nodes, leavers(choice)) == (("n0", "n1"), {"w": Method.KILL})


def test_system_checkpoints_share_the_time() -> None:
    jobs = [
        occupant("1", {"n0": {"cpu": 4}}, kill(100), system(3)),
        occupant("2", {"n1": {"cpu": 4}}, kill(70), system(3)),
    ]
    free = {"n0": {"cpu": 0}, "n1": {"cpu": 0}}
    tight = choose(instance(free, {"cpu": 4}, 2, *jobs, budget_steps=5))
    ample = choose(instance(free, {"cpu": 4}, 2, *jobs, budget_steps=6))
    assert leavers(tight) == {"1": Method.SYSTEM, "2": Method.KILL}
    assert leavers(ample) == {"1": Method.SYSTEM, "2": Method.SYSTEM}


def test_regular_checkpoints_need_no_turn() -> None:
    jobs = [occupant(str(index), {f"n{index}": {"cpu": 4}}, kill(100), application(5)) for index in range(3)]
    free = {f"n{index}": {"cpu": 0} for index in range(3)}
    choice = choose(instance(free, {"cpu": 4}, 3, *jobs, budget_steps=5))
    assert leavers(choice) == dict.fromkeys(("0", "1", "2"), Method.APPLICATION)


def test_of_equal_losses_the_shorter_checkpoints_then_the_fewer_jobs() -> None:
    slow = occupant("1", {"n0": {"cpu": 4}}, kill(100), system(3))
    quick = occupant("2", {"n1": {"cpu": 4}}, kill(100), system(2))
    halves = [occupant(f"3{index}", {"n2": {"cpu": 2}}, kill(100), system(1)) for index in range(2)]
    free = {"n0": {"cpu": 0}, "n1": {"cpu": 0}, "n2": {"cpu": 0}}
    assert leavers(choose(instance(free, {"cpu": 4}, 1, slow, quick, *halves, budget_steps=9))) == {
        "2": Method.SYSTEM
    }


def test_a_job_may_hold_different_amounts_on_its_nodes() -> None:
    uneven = occupant("1", {"n0": {"cpu": 1}, "n1": {"cpu": 4}}, kill(5))
    choice = choose(instance({"n0": {"cpu": 2}, "n1": {}}, {"cpu": 4}, 1, uneven))
    assert choice is not None
    assert choice.nodes == ("n1",)


def test_whole_nodes_are_those_that_every_job_leaves() -> None:
    jobs = [
        occupant("1", {"n0": {"cpu": 1}}, kill(50)),
        occupant("2", {"n0": {"cpu": 1}}, kill(60), application(1)),
        occupant("3", {"n1": {"cpu": 1}}, kill(1)),
        occupant("4", {"n1": {"cpu": 1}}),
    ]
    choice = choose(instance({"n0": {"cpu": 9}, "n1": {"cpu": 9}}, None, 1, *jobs, budget_steps=1))
    assert choice is not None
    assert (choice.nodes, leavers(choice)) == (("n0",), {"1": Method.KILL, "2": Method.APPLICATION})


def test_nodes_that_are_free_are_chosen_by_name() -> None:
    choice = choose(instance({"n2": {"cpu": 4}, "n1": {"cpu": 8}, "n0": {}}, {"cpu": 4}, 1))
    assert choice is not None
    assert (choice.nodes, choice.leaving, choice.loss_node_s) == (("n1",), (), 0)


def test_what_cannot_be_freed_is_no_choice() -> None:
    stays = occupant("1", {"n0": {"cpu": 4}})
    assert choose(instance({"n0": {}}, {"cpu": 1}, 1, stays)) is None
    assert choose(instance({"n0": {"cpu": 4}}, {"cpu": 1}, 2)) is None


def test_no_nodes_need_no_job_to_leave() -> None:
    choice = choose(instance({}, {"cpu": 1}, 0))
    assert choice is not None
    assert (choice.nodes, choice.leaving) == ((), ())
