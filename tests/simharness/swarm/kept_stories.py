"""Stories of the swarm that once broke a law, by what they are drawn from.

`makeway swarm` prints the line for each story that breaks a law. It stays here once the defect is mended.
"""

from dataclasses import dataclass, replace

from makeway.simharness.swarm.drawing import draw
from makeway.simharness.swarm.story import CHANGES, Story, TroubleKind

_LATER = (TroubleKind.ASLEEP, TroubleKind.STAYS, TroubleKind.RESUBMITS)
"""Kinds that came after every story that does not name them."""


@dataclass(frozen=True, kw_only=True)
class KeptStory:
    """A story, and what it broke."""

    seed: int
    policy: str
    law: str
    broke: str
    """What was wrong: with which defect, if that is known."""
    troubles: tuple[str, ...] = tuple(
        kind
        for kind in TroubleKind
        if kind
        not in (*_LATER, TroubleKind.SILENT, TroubleKind.HOLDS_LOST, TroubleKind.REQUEUES_LOST, *CHANGES)
    )
    """The kinds that were to be drawn."""
    switches: bool = False
    """Whether it may have switches."""
    components: bool = False
    """Whether its urgent jobs may be heterogeneous."""

    def story(self) -> Story:
        """The story, drawn again."""
        kinds = tuple(kind for kind in TroubleKind if kind in self.troubles)
        story = draw(self.seed, policies=(self.policy,), kinds=kinds, components=self.components)
        return story if self.switches else replace(story, switch_nodes=None)


ALL = tuple(kind for kind in TroubleKind if kind not in _LATER)
"""All kinds of trouble, those that a story drew at first and those that came later, but not the latest."""
ALL_BUT_RESUBMITS = tuple(kind for kind in TroubleKind if kind is not TroubleKind.RESUBMITS)
"""For the stories that were drawn before there was that kind, with all others."""
ALL_BUT_CHANGES = tuple(kind for kind in ALL if kind not in CHANGES)
"""For the stories that were drawn before urgent jobs were changed."""
ALL_BUT_REQUEUES_LOST = tuple(kind for kind in ALL_BUT_CHANGES if kind is not TroubleKind.REQUEUES_LOST)
"""For the stories that were drawn before there was that kind."""
KEPT_STORIES = (
    KeptStory(
        seed=281001253,
        policy="n-spaa",
        troubles=ALL_BUT_RESUBMITS,
        switches=True,
        components=True,
        law="restored",
        broke="job 11 waited for its turn until a job had started that was urgent no more",
    ),
    KeptStory(
        seed=260000410,
        policy="eviction",
        troubles=ALL,
        components=True,
        law="stuck",
        broke="one component of a running job was urgent no more and was evicted, which cannot be on Slurm",
    ),
    KeptStory(
        seed=7,
        policy="least-price",
        troubles=("fewer_nodes",),
        switches=True,
        components=True,
        law="left_behind",
        broke="job u2 wanted fewer nodes and started on these; the rest of its hold was idle until its end",
    ),
    KeptStory(
        seed=180000463,
        policy="n-spaa",
        troubles=ALL_BUT_CHANGES,
        law="second_signal",
        broke="the law counted a late signal under the journal that came after the one it was sent from",
    ),
    KeptStory(
        seed=150005542,
        policy="n-paa",
        troubles=ALL_BUT_CHANGES,
        switches=True,
        components=True,
        law="restored",
        broke="job 3 was put back, and the journal was lost before it had its turn: the job did not say it",
    ),
    KeptStory(
        seed=140020185,
        policy="cua-spaa",
        troubles=ALL_BUT_CHANGES,
        switches=True,
        components=True,
        law="stuck",
        broke="the requeue of job 1 was forgotten after an old view had it repeated: the answer had ended it",
    ),
    KeptStory(
        seed=130006280,
        policy="eviction",
        troubles=ALL_BUT_CHANGES,
        switches=True,
        components=True,
        law="stuck",
        broke="the controller refused for good to put job 6 back, and the law wanted it back",
    ),
    KeptStory(
        seed=120003196,
        policy="cup-paa",
        troubles=ALL_BUT_CHANGES,
        switches=True,
        components=True,
        law="stuck",
        broke="a requeue without an answer was not repeated, was carried out late, and was then forgotten",
    ),
    KeptStory(
        seed=110003110,
        policy="eviction",
        troubles=ALL_BUT_CHANGES,
        switches=True,
        components=True,
        law="stuck",
        broke="a requeue without an answer was forgotten, and an old view showed its job running",
    ),
    KeptStory(
        seed=70000045,
        policy="cua-spaa",
        troubles=ALL_BUT_CHANGES,
        switches=True,
        components=True,
        law="restored",
        broke="job 29 had its turn, its requeue was forgotten, and it was put back without its turn",
    ),
    KeptStory(
        seed=541,
        policy="least-price",
        law="unsignalled",
        broke="job 1, seen in the queue in an old view, runs and has to leave without a signal",
    ),
    KeptStory(
        seed=200253,
        policy="n-spaa",
        law="restored",
        broke="the clock stepped while job 8 was shrunk, and the law knew the right time alone",
    ),
    KeptStory(
        seed=723867,
        policy="cup-spaa",
        law="restored",
        broke="what was taken from job 4 was written with the time of the cluster, not of the daemon's clock",
    ),
    KeptStory(
        seed=813370,
        policy="eviction",
        troubles=ALL_BUT_REQUEUES_LOST,
        law="restored",
        broke="job 55 was requeued late, by a command without an answer, and lost its turn to its time limit",
    ),
    KeptStory(
        seed=2000767,
        policy="cup-spaa",
        troubles=ALL_BUT_REQUEUES_LOST,
        switches=True,
        components=True,
        law="defect",
        broke="a job that vanished after its signal is put back for an announcement whose job has arrived",
    ),
    KeptStory(
        seed=4002400,
        policy="eviction",
        troubles=ALL_BUT_REQUEUES_LOST,
        switches=True,
        law="unsignalled",
        broke="a signal that was never sent, as an old view showed job 32 in the queue, counted as sent",
    ),
    KeptStory(
        seed=6001066,
        policy="cup-paa",
        troubles=ALL_BUT_REQUEUES_LOST,
        switches=True,
        components=True,
        law="stuck",
        broke="the simulator rounded the instant of the next look to the present one, which never passed",
    ),
    KeptStory(
        seed=6003367,
        policy="cup-spaa",
        troubles=ALL_BUT_REQUEUES_LOST,
        components=True,
        law="restored",
        broke="job 14 was shrunk again, and the law knew its limit, although the clock was set back before",
    ),
    KeptStory(
        seed=6005956,
        policy="cup-paa",
        troubles=ALL_BUT_REQUEUES_LOST,
        components=True,
        law="stuck",
        broke="job u4 was to get a node of job u6's guest, which may not leave: its hold was made for ever",
    ),
    KeptStory(
        seed=7000852,
        policy="n-paa",
        troubles=ALL_BUT_REQUEUES_LOST,
        switches=True,
        law="left_behind",
        broke="the daemon was down for more than an hour, and forgot that the lost hold of u4 was its own",
    ),
    KeptStory(
        seed=9013821,
        policy="least-price",
        troubles=ALL_BUT_REQUEUES_LOST,
        switches=True,
        components=True,
        law="left_behind",
        broke="a release was refused for a moment while the clock was an hour fast, and came an hour later",
    ),
    KeptStory(
        seed=10000455,
        policy="cua-spaa",
        troubles=ALL_BUT_REQUEUES_LOST,
        switches=True,
        law="one_leader",
        broke="the controller forgot a lease by which one daemon acted, and which the other had not seen",
    ),
    KeptStory(
        seed=20022761,
        policy="least-price",
        troubles=ALL_BUT_REQUEUES_LOST,
        components=True,
        law="as_decided",
        broke="the wait of job 11 for its checkpoint counted only from the end of another checkpoint on",
    ),
    KeptStory(
        seed=20026507,
        policy="cup-spaa",
        troubles=ALL_BUT_REQUEUES_LOST,
        law="stuck",
        broke="the holds of two announced jobs on shared nodes changed places without end",
    ),
    KeptStory(
        seed=30005453,
        policy="n-spaa",
        troubles=ALL_BUT_REQUEUES_LOST,
        law="as_decided",
        broke="a daemon that waited for its lease killed 31 s after its decision, which the law counted",
    ),
    KeptStory(
        seed=30009070,
        policy="eviction",
        troubles=ALL_BUT_REQUEUES_LOST,
        law="restored",
        broke="by an old view in which job 29 still ran, the word was taken away that gives it its turn",
    ),
    KeptStory(
        seed=30012524,
        policy="cua-paa",
        troubles=ALL_BUT_REQUEUES_LOST,
        switches=True,
        law="caps",
        broke="the loss of a run was forgotten when an old view showed the run again",
    ),
    KeptStory(
        seed=291000396,
        policy="cup-paa",
        troubles=ALL,
        law="stuck",
        broke="requeues stay forgotten: 3, which was dropped in doubt while an old view showed the job",
    ),
    # Found when the code that keeps the law was taken out (`test_mutants.py`).
    KeptStory(
        seed=4,
        policy="cua-paa",
        troubles=("holds", "slow"),
        law="in_vain",
        broke="requeue of job 9 for job u2, which its owner held: what is taken was not looked at again",
    ),
    KeptStory(
        seed=1,
        policy="least-price",
        troubles=("journal_lost",),
        law="restored",
        broke="job 15 misses its time limit: what was taken was not written into the job",
    ),
    KeptStory(
        seed=46,
        policy="eviction",
        troubles=("answer_lost", "hangs"),
        law="second_signal",
        broke="run 0 of job 26 gets a second signal: the first one got no answer and was sent again",
    ),
    KeptStory(
        seed=24,
        policy="eviction",
        troubles=("second_daemon",),
        law="one_leader",
        broke="the first daemon acts while the lease of the second lasts, which it did not heed",
    ),
    KeptStory(
        seed=586,
        policy="cup-paa",
        troubles=ALL,
        switches=True,
        components=True,
        law="in_vain",
        broke="requeue of job 5 for job u12, after the cluster had refused the requeue of another job for it",
    ),
)
