package disconnect

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

const lost = int64(1000 * time.Second) // when the node went down

var names = map[Action]string{Keep: "keep", Lose: "lose", Await: "await", Replace: "replace", Aside: "aside"}

// each returns the decisions about an allocation one after another: at the loss of its node, at some seconds
// after it, and once the node is back and has not reported.
func each(rule *structs.DisconnectStrategy, edit func(*Alloc), seconds ...int) string {
	var out []string
	a := Alloc{Status: structs.AllocRunning, Node: Node{Lost: true, Since: lost}}
	edit(&a)
	for _, s := range seconds {
		d := Next(a, rule, lost+int64(s)*int64(time.Second))
		text := fmt.Sprintf("%d %s", s, names[d.Action])
		if d.Until != 0 {
			text += fmt.Sprintf(" until %d", (d.Until-lost)/int64(time.Second))
		}
		out = append(out, text)
		if d.Action != Keep && d.Action != Lose {
			a.Status = structs.AllocUnknown
		}
		a.Covered = a.Covered || d.Action == Replace
	}
	a.Node = Node{}
	return strings.Join(append(out, "back "+names[Next(a, rule, lost).Action]), ", ")
}

func TestNext_FollowsTheRule(t *testing.T) {
	minute := &structs.DisconnectStrategy{LostAfter: time.Minute}
	stops := &structs.DisconnectStrategy{StopOnClientAfter: new(time.Minute)}
	stays := &structs.DisconnectStrategy{Replace: new(false)}
	both := &structs.DisconnectStrategy{LostAfter: time.Minute, Replace: new(false)}
	ends := &structs.DisconnectStrategy{StopOnClientAfter: new(time.Minute), Replace: new(false)}
	reconciles := &structs.DisconnectStrategy{Reconcile: structs.ReconcileKeepOriginal}
	nothing := func(*Alloc) {}
	for name, c := range map[string]struct {
		rule *structs.DisconnectStrategy
		edit func(*Alloc)
		want string
	}{
		"without a rule":        {nil, nothing, "0 lose, 59 lose, 60 lose, back keep"},
		"an empty rule":         {reconciles, nothing, "0 lose, 59 lose, 60 lose, back keep"},
		"lost_after":            {minute, nothing, "0 replace until 60, 59 aside until 60, 60 lose, back aside"},
		"stop_on_client_after":  {stops, nothing, "0 await until 60, 59 await until 60, 60 lose, back await"},
		"stops, no replacement": {ends, nothing, "0 await, 59 await, 60 await, back await"},
		"no replacement":        {stays, nothing, "0 await, 59 await, 60 await, back await"},
		"lost, no replacement":  {both, nothing, "0 await until 60, 59 await until 60, 60 lose, back await"},
		"a replacement is here": {minute, func(a *Alloc) { a.Covered = true }, "0 aside until 60, 59 aside until 60, 60 lose, back aside"},
		"the node is off": {minute, func(a *Alloc) { a.Node.Off = true },
			"0 lose, 59 lose, 60 lose, back keep"},
		"an operator stops it": {stays, func(a *Alloc) { a.Given = true },
			"0 lose, 59 lose, 60 lose, back keep"},
		"it has not begun": {minute, func(a *Alloc) { a.Status = structs.AllocPending },
			"0 lose, 59 lose, 60 lose, back keep"},
		"the rule is gone meanwhile": {nil, func(a *Alloc) { a.Status = structs.AllocUnknown },
			"0 lose, 59 lose, 60 lose, back await"},
	} {
		if got := each(c.rule, c.edit, 0, 59, 60); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestKeepsOriginal_FollowsTheRule(t *testing.T) {
	older := Rival{Running: true, Since: 1, Score: 0.4}
	newer := Rival{Running: true, Since: 2, Score: 0.5}
	idle := Rival{}
	for _, c := range []struct {
		rule                  string
		original, replacement Rival
		want                  bool
	}{
		{structs.ReconcileKeepOriginal, older, newer, true},
		{structs.ReconcileKeepOriginal, idle, newer, true},
		{structs.ReconcileKeepReplacement, older, newer, false},
		{structs.ReconcileKeepReplacement, older, idle, true},
		{structs.ReconcileLongestRunning, older, newer, true},
		{structs.ReconcileLongestRunning, newer, older, false},
		{structs.ReconcileLongestRunning, newer, newer, true},
		{structs.ReconcileLongestRunning, idle, newer, false},
		{structs.ReconcileBestScore, older, newer, false},
		{structs.ReconcileBestScore, newer, older, true},
		{"", older, newer, false},
		{"", older, older, true},
		{"", idle, newer, false},
		{"", older, idle, true},
		{"", idle, idle, true},
	} {
		rule := &structs.DisconnectStrategy{Reconcile: c.rule}
		if got := KeepsOriginal(rule, c.original, c.replacement); got != c.want {
			t.Errorf("%q of %+v and %+v: the original stays: %v", c.rule, c.original, c.replacement, got)
		}
	}
}
