package csitrace

import (
	"fmt"
	"slices"
)

// Rule judges a call at its start by all that came before it.
type Rule struct {
	Name   string
	Duties string // of the CSI specification, as docs/reference/csi-duties.md numbers them
	// broken returns how the call breaks the rule, "" if it does not.
	broken func(l *ledger, c *Call) string
}

// Rules lists all rules.
var Rules = []Rule{
	{"one call for a volume at a time", "C1", overlappedVolume},
	{"one call for a snapshot at a time", "C2", overlappedSnapshot},
	{"one call for each volume of a group at a time", "C1, C2", overlappedGroup},
	{"a volume is staged where it is attached", "K2", stagedUnattached},
	{"a volume is published where it is attached", "K17", publishedUnattached},
	{"a volume is published where it is staged", "K3", publishedUnstaged},
	{"a volume is unstaged after it is unpublished", "K13", unstagedInUse},
	{"a volume is detached after it is unpublished and unstaged", "G12, K12, K31", detachedInUse},
	{"a volume is deleted after all nodes have released it", "F24", deletedInUse},
	{"nothing follows a deletion", "F24", usedAfterDeletion},
	{"a volume of one node is attached to one node", "G5, H21", attachedTwice},
	{"a volume has as many users as its access mode allows", "H21, K18", publishedTwice},
	{"a volume grows where it is staged or published", "J8", grownAbsent},
	{"a volume in use grows only if the plugin allows it", "E5, J1", grownOnline},
	{"the plugin offers the RPC", "E2, F1, G1, H14, H19, I1, K35", notOffered},
	{"the plugin offers the argument", "G3, F7, F8, F9, H20, K29", argumentNotOffered},
	{"volume_context is that of the creation", "B12, F13, G4", changedVolumeContext},
	{"publish_context is that of the attachment", "G7, K4, K21", changedPublishContext},
	{"a repetition has the same arguments", "C5", changedRepetition},
	{"a detach has the secrets of its attachment", "D5", changedSecrets},
	{"a volume has one staging path on a node", "K5", secondStagingPath},
	{"required fields are set", "B5, G13, K22", missingField},
	{"fields are within their limits", "B1, B7, B8", exceededLimit},
	{"a volume is restored from a snapshot that is ready", "F8", restoredUnready},
	{"no snapshot is deleted during a restore from it", "I16", deletedDuringRestore},
	{"a member of a group is not deleted alone", "I14", deletedAlone},
	{"a group is deleted with the list of its snapshots", "L4, L9", changedMembers},
}

// Fault is one call that breaks a rule.
type Fault struct {
	Rule Rule
	Call *Call
	Text string
}

func (f Fault) String() string {
	return fmt.Sprintf("%s (%s): %s: %s", f.Rule.Name, f.Rule.Duties, f.Call, f.Text)
}

// Check returns how the calls of a trace break the Rules, in the order of the calls. The trace is in the
// order of the starts, as Recorder.Trace returns it.
func Check(trace []*Call) (faults []Fault) {
	l := newLedger()
	for _, e := range eventsOf(trace) {
		if e.ends {
			l.end(e.call)
			continue
		}
		for _, r := range Rules {
			if text := r.broken(l, e.call); text != "" {
				faults = append(faults, Fault{r, e.call, text})
			}
		}
		l.begin(e.call)
	}
	return faults
}

// Left describes the attachments, stages and publications that a trace has not undone. Each call that was
// made counts, also if it failed.
func Left(trace []*Call) (left []string) {
	l := newLedger()
	for _, e := range eventsOf(trace) {
		if e.ends {
			l.end(e.call)
		} else {
			l.begin(e.call)
		}
	}
	for _, effects := range []map[place]*effect{l.attached, l.staged, l.published} {
		for _, e := range effects {
			left = append(left, e.last.String())
		}
	}
	slices.Sort(left)
	return left
}

// event is the start or the end of a call.
type event struct {
	call *Call
	ends bool
}

// eventsOf returns the starts and the ends of calls in their order.
func eventsOf(trace []*Call) (events []event) {
	for _, c := range trace {
		events = append(events, event{c, false})
		if c.End != 0 {
			events = append(events, event{c, true})
		}
	}
	slices.SortFunc(events, func(a, b event) int { return a.position() - b.position() })
	return events
}

func (e event) position() int {
	if e.ends {
		return e.call.End
	}
	return e.call.Start
}
