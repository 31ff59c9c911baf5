package validate

import (
	"slices"

	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/validate/field"
)

// actionNameForm is the form of the name of an action. It is the dialect's.
var actionNameForm = field.Pattern(`^[A-Za-z0-9_-]{1,128}$`)

// checkActions checks the actions of a task. Their words obey the bounds of the commands that users run in
// tasks.
func checkActions(f field.Errors, t *structs.Task) {
	seen := map[string]bool{}
	for i, a := range field.FirstOf(f, "actions", t.Actions, structs.MaxActions) {
		if a == nil {
			f.Addf("action %d is null", i+1)
			continue
		}

		f := f.At("action %q", structs.Cut(a.Name, structs.MaxQuoted))
		f.Require(actionNameForm().MatchString(a.Name), "name must be 1 to 128 letters, digits, - and _")
		f.Require(!seen[a.Name], "the task has two actions with this name")
		seen[a.Name] = true
		f.Require(a.Command != "", "command is required")
		f.CheckText("command", a.Command)
		if a.Command == "" {
			continue
		}
		err := nodecalls.CheckExec(append([]string{a.Command}, a.Args...))
		if err != nil {
			f.Addf("%v", err)
		}
		f.Require(!slices.ContainsFunc(a.Args, func(arg string) bool { return !field.IsText(arg) }),
			"each of the args must be UTF-8 without NUL")
	}
}
