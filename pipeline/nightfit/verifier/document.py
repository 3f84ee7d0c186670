"""A release's own facts, its signature and its place in a ledger's chain. Imports the standard library; cryptography for signatures.

A chain is the list of records that `nightfit ledger export --chain` prints, oldest first. Nothing here trusts the program that wrote them:
every digest is computed anew.
"""

import hashlib
import json
from collections import defaultdict
from typing import Any

from .epsilon import gaussian_epsilon, routes

Content = dict[str, Any]
Entry = dict[str, Any]
UNBOUND = ("receipt", "signature")  # what a release's digest leaves out: both are made after it
DOMAIN = b"nightfit release 1\n"  # before what is signed, so that a signature of something else is none of a release
TOLERANCE = 1e-3  # relative: both routes round; a claim that is wrong by more than a thousandth is refused


def canonical(value: Any) -> str:
    """JSON with one spelling: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def sha256(text: str) -> str:
    """Of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def content_digest(content: Content) -> str:
    """What receipt and ledger record of a release."""
    return sha256(canonical({name: value for name, value in content.items() if name not in UNBOUND}))


def signed_bytes(content: Content) -> bytes:
    """What a signature covers: everything but itself, the receipt too."""
    return DOMAIN + canonical({name: value for name, value in content.items() if name != "signature"}).encode()


def check_epsilon(content: Content) -> tuple[list[str], list[str]]:
    """Recompute epsilon from the events; what was found, and what is wrong."""
    guarantee = content.get("guarantee")
    if not content.get("private") or not guarantee:
        return [], ["it claims no privacy: it was made with seeded or no noise"]
    claimed, delta, events = guarantee["epsilon"], guarantee["delta"], content["events"]
    found = [f"it claims epsilon {claimed:.6g} at delta {delta:g} for one {guarantee['unit']} under {guarantee['adjacency']}"]
    wrong = []
    if not events:
        return found, ["it lists no events: nothing says what it cost"]
    if {event["adjacency"] for event in events} != {guarantee["adjacency"]}:
        wrong.append("its events are about other neighbours than its guarantee")
    routed = routes(events, delta)
    for route in routed:
        bound = "" if route.tight else ", an upper bound that may be loose"
        found.append(f"its {len(events)} events cost {route.epsilon:.6g} by the {route.name}{bound}")
        if route.tight and not route.epsilon <= claimed * (1 + TOLERANCE):
            wrong.append(f"its events cost epsilon {route.epsilon:.6g} by the {route.name}, and it claims {claimed:.6g}")
    if not wrong and min(route.epsilon for route in routed) > claimed * (1 + TOLERANCE):
        wrong.append(f"no route confirms epsilon {claimed:.6g}")
    return found, wrong


def check_document(content: Content) -> tuple[list[str], list[str]]:
    """Compare the parts of a release with each other."""
    wrong = []
    plan, receipt = content.get("plan"), content.get("receipt") or {}  # an evaluation on data of its own has no plan but its events
    if plan is not None and plan["events"] != content["events"]:
        wrong.append("its events are not those of its plan")
    # a search's digest is that of the plan before a setting was chosen, which is not in the release
    if (
        plan is not None
        and "search" not in content
        and hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest() != content["plan_digest"]
    ):
        wrong.append("its plan is not the one of its digest")
    if not receipt:
        return [], [*wrong, "it has no receipt: no ledger paid for it"]
    if receipt.get("content") is None:
        return ["its receipt covers no content: it is older than ledgers of format 3"], wrong
    if receipt["content"] != content_digest(content):
        return [], [*wrong, "it was edited after it was released: its receipt covers other content"]
    return ["its receipt covers this very content"], wrong


def _plan(plan: Content, content: Content) -> list[str]:
    wrong = [] if plan["events"] == content["events"] else ["its events are not those of its plan"]
    # a search's digest is that of the plan before a setting was chosen, which is not in the release
    if "search" not in content and hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest() != content["plan_digest"]:
        wrong.append("its plan is not the one of its digest")
    return wrong


def check_signature(content: Content, public_key: bytes | None) -> tuple[list[str], list[str]]:
    """Check an Ed25519 signature by a public key in PEM."""
    signature = content.get("signature")
    if public_key is None:
        return (["it is signed: give --key to check by whom"] if signature else []), []
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    if not signature:
        return [], ["it is not signed"]
    try:
        key = load_pem_public_key(public_key)
    except (ValueError, UnsupportedAlgorithm):
        return [], ["the key is no public key in PEM"]
    if not isinstance(key, Ed25519PublicKey):
        return [], ["the key is no Ed25519 key"]
    try:
        key.verify(bytes.fromhex(signature["ed25519"]), signed_bytes(content))
    except (InvalidSignature, ValueError, KeyError, TypeError):
        return [], ["its signature is not of this content by this key"]
    return ["its signature is of this content by the given key"], []


def check_chain(content: Content, entries: list[Entry]) -> tuple[list[str], list[str]]:
    """Follow a chain from its first entry to its last, and find the release's run in it."""
    wrong = _broken(entries)
    if wrong:
        return [], wrong
    receipt = content.get("receipt") or {}
    paid = [entry for entry in entries if (entry["seq"], entry["digest"]) == (receipt.get("seq"), receipt.get("digest"))]
    if not paid:
        return [], [f"the ledger has no entry {receipt.get('seq')} of its receipt: it is another ledger or an older copy"]
    run, body = content["run"], json.loads(paid[0]["body"])
    if (paid[0]["kind"], paid[0]["run"]) != ("finished", run):
        return [], [f"entry {receipt['seq']} did not close run {run}"]
    reserved = next(json.loads(entry["body"]) for entry in entries if (entry["kind"], entry["run"]) == ("reserved", run))
    if body.get("content") not in (None, content_digest(content)):
        wrong.append(f"entry {receipt['seq']} closed another release")
    shared = reserved.get("shared", {"run": None, "events": []})
    if [*shared["events"], *reserved["events"]] != content["events"] or reserved["plan"] != content["plan_digest"]:
        wrong.append("what was reserved for its run is not what it lists")
    wrong += _unpaid(shared, reserved, [entry for entry in entries if entry["seq"] < receipt["seq"]])
    if content.get("private") and not reserved["private"]:
        wrong.append("its run was reserved without private noise")
    asked = {entry["label"] for entry in entries if entry["kind"] == "asked" and entry["run"] in (run, shared["run"])}
    if asked != {event["label"] for event in content["events"]}:
        wrong.append("its run asked other queries than it lists")
    return [
        f"the chain of {len(entries)} entries is whole, and entry {receipt['seq']} closed this release",
        *([f"run {shared['run']} paid for {len(shared['events'])} of its queries, which other models share"] if shared["events"] else []),
        *_spent(entries, content.get("plan", content)["data_set"]),
    ], wrong


def _unpaid(shared: dict[str, Any], reserved: dict[str, Any], before: list[Entry]) -> list[str]:
    """What is wrong with queries whose answers the release's run took from another run: that one must have paid for them, once, before."""
    if not shared["events"]:
        return []
    of_run = {
        entry["kind"]: entry["body"] for entry in before if entry["run"] == shared["run"] and entry["kind"] in ("reserved", "finished")
    }
    paid = json.loads(of_run.get("reserved", "{}"))
    if "finished" not in of_run or paid.get("events") != shared["events"] or paid["blocks"] != reserved["blocks"]:
        return [f"run {shared['run']}, whose answers its run took, did not pay for them"]
    return ["its run claims privacy for answers that had none"] if reserved["private"] and not paid["private"] else []


def _broken(entries: list[Entry]) -> list[str]:
    previous = entries[0]["previous"] if entries else ""
    pruned: dict[tuple[object, ...], int] = {}
    for number, entry in enumerate(entries, start=1):
        facts = [entry[name] for name in ("seq", "kind", "data_set", "run", "label", "body")]
        if entry["seq"] != number or entry["previous"] != previous:
            return [f"entry {number} of the chain was removed or reordered"]
        if entry["body"] is None and entry["kind"] == "answered":
            pruned[entry["data_set"], entry["run"], number, entry["label"], entry["digest"]] = number
        elif sha256(json.dumps([previous, *facts], separators=(",", ":"))) != entry["digest"]:
            return [f"entry {number} of the chain was edited"]
        elif entry["kind"] == "pruned":
            for kept in json.loads(entry["body"])["answers"]:
                pruned.pop((entry["data_set"], entry["run"], *kept), None)
        previous = entry["digest"]
    return [f"entry {number} of the chain lacks its answer, and nothing says that it was pruned" for number in pruned.values()]


def _spent(entries: list[Entry], data_set: str) -> list[str]:
    """What all runs together cost the most used block of the data set, by its reservations and refunds."""
    spent: defaultdict[str, int] = defaultdict(int)
    policy: dict[str, Any] = {}
    for entry in (entry for entry in entries if entry["data_set"] == data_set and entry["kind"] != "answered"):
        body = json.loads(entry["body"])
        if entry["kind"] == "policy":
            policy = body
        if entry["kind"] == "migrated":
            spent = defaultdict(int, {account: int(cost[0]) for account, cost in body["balances"].items()})
        sign, cost = {"reserved": (1, "cost"), "abandoned": (-1, "refund")}.get(entry["kind"], (0, ""))
        for account in body.get("accounts", body.get("blocks", [])) if sign else []:
            spent[account] += sign * int(body[cost][0])
    if not spent or policy.get("currency") != "gaussian":
        return []
    account = max(spent, key=lambda name: spent[name])
    epsilon = gaussian_epsilon((spent[account] / 2**200) ** 0.5, policy["delta"]) if spent[account] > 0 else 0.0
    return [f"all runs cost block {account} of {data_set} epsilon {epsilon:.4g} of {policy['epsilon']:g} at delta {policy['delta']:g}"]
