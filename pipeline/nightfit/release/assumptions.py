"""What a guarantee takes for granted, as names that programs read and sentences that people read. Imports the standard library.

A release lists the names under `guarantee.assumptions`; docs/explanation/privacy.md says what breaks if one is false.
"""

from enum import StrEnum


class Assumption(StrEnum):
    """One fact outside of the program that a guarantee needs, or the arithmetic of its noise. Names are stored: they never change."""

    EXACT_INTEGERS = "exact_integers"
    FLOATING_POINT_NOISE = "floating_point_noise"
    BOUNDS_ARE_PUBLIC = "bounds_are_public"
    ROW_COUNT_IS_PUBLIC = "row_count_is_public"
    STATED_UNITS_ARE_PUBLIC = "stated_units_are_public"
    RECORDS_ARE_UNITS = "records_are_units"
    RECORD_IDS_ARE_STABLE = "record_ids_are_stable"
    PERSON_IDS_ARE_TRUE = "person_ids_are_true"
    EARLIER_ROWS_ARE_BOUNDED = "earlier_rows_are_bounded"
    REPORTS_ARE_DRAWN_BY_OWNERS = "reports_are_drawn_by_owners"
    SEARCH_TIME_IS_HIDDEN = "search_time_is_hidden"
    ONE_LEDGER = "one_ledger"
    ENTROPY_IS_SECRET = "entropy_is_secret"

    @property
    def sentence(self) -> str:
        """What it says."""
        return SENTENCES[self]


SENTENCES = {
    Assumption.EXACT_INTEGERS: "Sums and noise are whole numbers: the noise has its distribution exactly.",
    Assumption.FLOATING_POINT_NOISE: "Some noise is made of floating-point numbers: it has its distribution up to rounding errors.",
    Assumption.BOUNDS_ARE_PUBLIC: "Bounds, columns and settings were chosen without looking at these records.",
    Assumption.ROW_COUNT_IS_PUBLIC: "The number of records is public.",
    Assumption.STATED_UNITS_ARE_PUBLIC: "The stated number of units is a public fact, not a count of these records.",
    Assumption.RECORDS_ARE_UNITS: "One record is protected: who has several is protected for each of them alone.",
    Assumption.RECORD_IDS_ARE_STABLE: "A record keeps its id for life, so that it stays in its bucket.",
    Assumption.PERSON_IDS_ARE_TRUE: "A person has one id, and no two persons share one.",
    Assumption.EARLIER_ROWS_ARE_BOUNDED: (
        "Releases before the data set protected persons read at most earlier_rows rows of one person; they protect what so many rows say, "
        "not how many there are."
    ),
    Assumption.REPORTS_ARE_DRAWN_BY_OWNERS: "Reports are randomised where the records are, before anything is collected.",
    Assumption.SEARCH_TIME_IS_HIDDEN: "Nobody sees how long the search took.",
    Assumption.ONE_LEDGER: "These records are read through one ledger and one name of the data set only, and no older copy is restored.",
    Assumption.ENTROPY_IS_SECRET: "Nobody knows or repeats the operating system's random numbers.",
}
