"""One daemon takes the lease, keeps it while it lives, and loses it when it does not."""

from pathlib import Path

import pytest

from makeway.adapters.protocol import Rejected, Unavailable
from makeway.daemon.leader.leadership import lease_length_s
from makeway.daemon.leader.standing import Role
from makeway.policies.model import Cluster, LeaderLease
from tests.daemon.leader.daemons import COMMAND_S, LEASE_S, Daemon, World

MARGIN_S = COMMAND_S + 0.05 * LEASE_S


@pytest.fixture
def world() -> World:
    return World()


def test_the_first_daemon_leads_at_once_and_the_second_follows(world: World) -> None:
    first, second = Daemon(world), Daemon(world)
    assert (first.look(), second.look()) == (Role.LEADS, Role.FOLLOWS)
    assert (first.acts, second.acts) == (True, False)
    assert first.calls == ["create"]
    assert second.calls == []
    assert second.lease.standing.text == "another daemon leads"
    (kept,) = world.book.all()
    assert second.lease.standing.lease_text == f"mark {kept.mark}, lasts {kept.lasts_s:.0f} s"


def test_a_daemon_leads_once_the_cluster_has_saved_its_lease(world: World) -> None:
    daemon = Daemon(world)
    daemon.saves_s = 10.0
    assert (daemon.look(), daemon.acts) == (Role.WAITS, False)
    assert daemon.lease.due_in_s() == pytest.approx(10.0, abs=0.1)
    world.now_s += 9.0
    assert (daemon.look(), daemon.acts) == (Role.WAITS, False)
    world.now_s += 1.0
    assert not daemon.acts, "no snapshot has shown the lease yet"
    assert (daemon.look(), daemon.acts) == (Role.LEADS, True)
    assert daemon.calls == ["create"]


def test_of_two_daemons_none_leads_by_a_lease_that_the_controller_forgot(world: World) -> None:
    """The second daemon starts after the crash, and has never seen the lease of the first."""
    first = Daemon(world)
    first.saves_s = 10.0
    first.look()
    world.now_s += 5.0
    world.book.forget(since_s=world.now_s - 5.0)
    second = Daemon(world)
    second.saves_s = 10.0
    second.look()
    for _ in range(8):
        assert not (first.acts and second.acts)
        world.now_s += 5.0
        second.look()
    assert (first.acts, second.acts) == (False, True)
    assert (first.look(), first.acts) == (Role.WAITS, False)


def test_a_lease_that_is_not_saved_yet_is_withdrawn_too(world: World) -> None:
    daemon = Daemon(world)
    daemon.saves_s = 10.0
    daemon.look()
    daemon.lease.withdraw()
    assert world.terms() == []


def test_a_lease_that_is_renewed_never_ends(world: World) -> None:
    first, second = Daemon(world), Daemon(world)
    first.look()
    for _ in range(20):
        world.now_s += LEASE_S / 3
        assert (first.look(), second.look()) == (Role.LEADS, Role.FOLLOWS)
        assert first.acts
    assert first.calls.count("renew") == 20
    assert world.terms() == [1]


def test_it_is_not_renewed_more_often_than_needed(world: World) -> None:
    daemon = Daemon(world)
    for _ in range(19):
        daemon.look()
        world.now_s += 1.0
    assert daemon.calls == ["create"]
    due_s = daemon.lease.due_in_s()
    assert due_s == pytest.approx(LEASE_S / 3 - 19.0, abs=0.1)


def test_another_takes_over_after_the_lease_and_a_margin_by_its_own_clock(world: World) -> None:
    first, second = Daemon(world), Daemon(world)
    first.look()
    world.now_s += 7.0
    second.look()
    due_s = second.lease.due_in_s()
    assert due_s == pytest.approx(LEASE_S + MARGIN_S, abs=0.1)
    world.now_s += LEASE_S + MARGIN_S - 0.1
    assert second.look() is Role.FOLLOWS
    world.now_s += 0.1
    assert second.look() is Role.LEADS
    assert second.acts
    assert world.terms() == [2], "the term that has ended is removed"
    assert first.look() is Role.FOLLOWS


def test_no_command_begins_that_may_last_longer_than_the_lease(world: World) -> None:
    daemon = Daemon(world)
    daemon.look()
    world.now_s += LEASE_S - COMMAND_S - 0.1
    assert daemon.acts
    world.now_s += 0.1
    assert not daemon.acts


def test_a_lease_that_has_ended_is_not_renewed_but_taken_anew(world: World) -> None:
    daemon = Daemon(world)
    daemon.look()
    world.now_s += LEASE_S
    assert daemon.look() is Role.LEADS, "its own lease needs no wait"
    assert daemon.calls == ["create", "create", "remove"]
    assert world.terms() == [2]


def test_a_renewal_without_an_answer_does_not_prolong_the_lease(world: World) -> None:
    daemon = Daemon(world)
    daemon.look()
    daemon.errors["renew"] = Unavailable("no answer")
    world.now_s += LEASE_S / 2
    assert daemon.look() is Role.LEADS
    assert daemon.lease.standing.problem == "no answer"
    assert (daemon.lease.due_in_s() or 0.0) > 1.0, "it is not tried again at once"
    world.now_s += LEASE_S / 2 - COMMAND_S
    assert not daemon.acts


def test_of_two_that_take_it_at_once_one_leads(world: World) -> None:
    first, second = Daemon(world), Daemon(world)
    views = [world.view(), world.view()]
    first.lease.look(lambda: views.pop() if len(views) == 2 else world.view(), True)
    second.lease.look(lambda: views.pop() if len(views) == 1 else world.view(), True)
    assert [first.acts, second.acts] == [True, False]
    assert second.calls == ["create"]
    assert "Duplicate" in (second.lease.standing.problem or "")
    assert second.look() is Role.FOLLOWS


def test_a_daemon_without_memory_makes_way_for_one_with(world: World) -> None:
    """Both make a term, but not the same: the one whose second look shows the other does not lead."""
    old, new = Daemon(world), Daemon(world)
    old.look()
    world.book.remove(1)

    def look_again(seen: list[Cluster]) -> Cluster:
        if seen:
            new.look()
        seen.append(world.view())
        return seen[-1]

    seen: list[Cluster] = []
    old.lease.look(lambda: look_again(seen), True)
    assert [old.acts, new.acts].count(True) <= 1
    for _ in range(30):
        world.now_s += 10.0
        roles = [old.look(), new.look()]
        assert [old.acts, new.acts].count(True) <= 1
    assert roles.count(Role.LEADS) == 1


def test_a_lease_that_may_not_be_made_is_reported(world: World) -> None:
    daemon = Daemon(world)
    daemon.errors["create"] = Rejected("scontrol: Access/permission denied")
    assert daemon.look() is Role.WAITS
    assert daemon.lease.standing.problem == "scontrol: Access/permission denied"
    assert daemon.lease.standing.text == "waits for the lease (scontrol: Access/permission denied)"
    del daemon.errors["create"]
    assert daemon.look() is Role.LEADS


def test_a_daemon_that_is_started_again_knows_its_own_lease(world: World, tmp_path: Path) -> None:
    first, second = Daemon(world, tmp_path / "journal"), Daemon(world)
    first.look()
    second.look()
    first.journal.close()
    again = Daemon(world, tmp_path / "journal")
    assert again.look() is Role.LEADS
    assert world.terms() == [2]


def test_a_copy_of_the_journal_elsewhere_does_not_own_the_lease(world: World, tmp_path: Path) -> None:
    first = Daemon(world, tmp_path / "journal")
    first.look()
    first.journal.close()
    assert Daemon(world, tmp_path / "journal", boot="another").look() is not Role.LEADS


def test_boots_that_are_not_known_are_not_the_same(world: World, tmp_path: Path) -> None:
    first = Daemon(world, tmp_path / "journal", boot="")
    first.look()
    first.journal.close()
    again = Daemon(world, tmp_path / "journal", boot="")
    assert again.look() is not Role.LEADS, "it may be another machine, with a copy of the journal"
    world.now_s += LEASE_S + MARGIN_S
    assert again.look() is Role.LEADS


def test_a_death_between_the_journal_and_the_cluster(world: World, tmp_path: Path) -> None:
    first = Daemon(world, tmp_path / "journal")
    first.errors["create"] = Unavailable("killed")
    first.look()
    first.journal.close()
    world.book.create(LeaderLease(term=1, mark=1, lasts_s=LEASE_S), world.now_s)  # it had arrived
    assert Daemon(world, tmp_path / "journal").look() is Role.LEADS


def test_notes_that_cannot_be_read_count_for_nothing(world: World, tmp_path: Path) -> None:
    first = Daemon(world, tmp_path / "journal")
    first.look()
    first.journal.note("leases", "{")
    first.journal.close()
    assert Daemon(world, tmp_path / "journal").look() is Role.FOLLOWS


def test_a_handover(world: World) -> None:
    first, second = Daemon(world), Daemon(world)
    first.look()
    second.look()
    assert not second.lease.hand_over()
    assert first.lease.hand_over()
    assert first.look() is Role.WAITS
    assert not first.acts
    assert second.look() is Role.LEADS, "at once"
    assert first.look() is Role.FOLLOWS
    assert world.terms() == [2]


def test_a_handover_that_nobody_takes(world: World) -> None:
    daemon = Daemon(world)
    daemon.look()
    daemon.lease.hand_over()
    assert daemon.look() is Role.WAITS
    assert daemon.look() is Role.WAITS
    world.now_s += daemon.lease.due_in_s() or 0.0
    assert daemon.look() is Role.LEADS


def test_a_handover_without_an_answer_goes_on(world: World) -> None:
    first, second = Daemon(world), Daemon(world)
    first.look()
    first.lease.hand_over()
    first.errors["renew"] = Unavailable("no answer")
    assert first.look() is Role.WAITS
    assert not first.acts
    del first.errors["renew"]
    first.look()
    assert second.look() is Role.LEADS


def test_without_anything_to_do_there_is_no_lease(world: World) -> None:
    daemon = Daemon(world)
    assert daemon.look(wanted=False) is Role.IDLE
    assert world.terms() == []
    daemon.look()
    assert daemon.look(wanted=False) is Role.IDLE
    assert Daemon(world).look() is Role.LEADS, "it was given up"


def test_a_daemon_that_withdraws_leaves_no_lease_and_another_takes_over(world: World) -> None:
    first, second = Daemon(world), Daemon(world)
    first.look()
    assert second.look() is Role.FOLLOWS
    second.lease.withdraw()
    assert world.terms() == [1], "it is not the follower's"
    first.lease.withdraw()
    assert (first.acts, world.terms()) == (False, [])
    second.look()
    world.now_s += LEASE_S + MARGIN_S
    assert second.look() is Role.LEADS
    assert world.terms() == [2]


def test_a_lease_that_was_handed_over_and_that_nobody_took_is_withdrawn_too(world: World) -> None:
    first, second = Daemon(world), Daemon(world)
    first.look()
    first.lease.hand_over()
    first.look()
    second.look()
    first.look()
    first.lease.withdraw()
    assert world.terms() == [2], "it is the other's, who took the lease"
    second.lease.hand_over()
    second.look()
    second.look()
    second.lease.withdraw()
    assert world.terms() == []


def test_a_controller_that_has_forgotten_the_lease(world: World) -> None:
    first, second = Daemon(world), Daemon(world)
    first.look()
    second.look()
    world.book.forget(0.0)
    assert second.look() is not Role.LEADS, "the first may still act"
    assert first.look() is Role.LEADS
    assert world.terms() == [2]


def test_how_long_a_lease_lasts() -> None:
    assert lease_length_s(None, 1.0) == 120.0
    assert lease_length_s(None, 60.0) == 360.0
    assert lease_length_s(45.0, 60.0) == 45.0


def test_without_a_snapshot_it_does_not_look_again_at_once(world: World) -> None:
    daemon = Daemon(world)
    daemon.look()
    world.now_s += LEASE_S / 2

    def no_answer() -> Cluster:
        raise Unavailable("no answer")

    with pytest.raises(Unavailable):
        daemon.lease.look(no_answer, True)
    assert daemon.lease.due_in_s() == pytest.approx(LEASE_S / 12, abs=0.1)
