package validate

import (
	"fmt"
	"strings"
	"testing"

	"berth/structs"
	"berth/structs/validate/field"
)

func TestCheck_BoundsActions(t *testing.T) {
	many := func(n int) (all []*structs.Action) {
		for i := range n {
			all = append(all, &structs.Action{Name: fmt.Sprint(i), Command: "/x"})
		}
		return all
	}
	one := func(a structs.Action) []*structs.Action { return []*structs.Action{&a} }
	named := func(name string) []*structs.Action { return one(structs.Action{Name: name, Command: "/x"}) }
	const form = "name must be 1 to 128 letters, digits, - and _"
	for _, c := range []struct {
		all  []*structs.Action
		want string
	}{
		{nil, ""},
		{many(structs.MaxActions), ""},
		{named("a-Z_9"), ""},
		{named(strings.Repeat("x", 128)), ""},
		{one(structs.Action{Name: "a", Command: "/x", Args: []string{"", "${NOMAD_TASK_DIR}"}}), ""},
		{many(structs.MaxActions + 1), "65 actions; at most 64 are allowed"},
		{named(""), form},
		{named("a b"), form},
		{named("ä"), form},
		{named("a\n"), form},
		{named(strings.Repeat("x", 129)), form},
		{append(named("a"), named("a")...), `action "a": the task has two actions with this name`},
		{[]*structs.Action{nil}, "action 1 is null"},
		{one(structs.Action{Name: "a"}), `action "a": command is required`},
		{one(structs.Action{Name: "a", Command: "x\x00"}), "command must be UTF-8 without NUL"},
		{one(structs.Action{Name: "a", Command: "x", Args: []string{"\xff"}}), "args must be UTF-8"},
		{one(structs.Action{Name: "a", Command: "x", Args: make([]string, structs.MaxExecArgs)}),
			"1025 arguments, more than 1024"},
		{one(structs.Action{Name: "a", Command: "x", Args: []string{strings.Repeat("y", structs.MaxExecBytes)}}),
			"16385 bytes, more than 16384"},
	} {
		f := field.New("task")
		checkActions(f, &structs.Task{Actions: c.all})
		err := f.Err()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.200v: got %v, want %q", c.all, err, c.want)
		}
	}
}
