package taskfiles

import (
	"math"
	"path"
	"strings"

	"berth/structs"
	"berth/structs/validate/field"
)

// CheckTemplates checks the templates of a task.
func CheckTemplates(f field.Errors, t *structs.Task) {
	seen := map[string]bool{}
	for i, x := range field.FirstOf(f, "templates", t.Templates, structs.MaxTemplates) {
		if x == nil {
			f.Addf("template %d is null", i+1)
			continue
		}

		f := f.At("template %d", i+1)
		checkTemplate(f, x)
		if t.Driver == driverExec && !path.IsAbs(x.DestPath) {
			checkInRoot(f, x.DestPath)

			f.Require(!isTopFile(x.DestPath) || x.ChangeMode == "" || x.ChangeMode == structs.TemplateRestart,
				"destination %q: a task of the driver exec sees a change of a file that is in no folder after a restart "+
					"only; use change_mode restart, or a folder such as local", x.DestPath)
		}

		// Two templates would overwrite each other.
		clean := path.Clean(x.DestPath)
		f.Require(!seen[clean], "destination %q is that of another template of the task", x.DestPath)
		seen[clean] = true
	}
}

// checkTemplate checks a template. The text of a file is checked by the node, when it has the file.
func checkTemplate(f field.Errors, t *structs.Template) {
	switch {
	case t.SourcePath == "" && t.EmbeddedTmpl == "":
		f.Addf("data or source is required")
	case t.SourcePath != "" && t.EmbeddedTmpl != "":
		f.Addf("data and source exclude each other")
	case t.SourcePath != "":
		checkTaskPath(f, "source", t.SourcePath)
	}

	checkTaskPath(f, "destination", t.DestPath)
	f.CheckString("left_delimiter", t.LeftDelim, structs.MaxDelimiter)
	f.CheckString("right_delimiter", t.RightDelim, structs.MaxDelimiter)
	if t.EmbeddedTmpl != "" {
		_, faults := parseText(t, t.EmbeddedTmpl)
		for _, err := range faults {
			f.Addf("data: %v", ownError(err))
		}
	}

	_, err := t.Mode()
	f.Require(err == nil, "perms %q must be an octal number from 0 to 777", t.Perms)
	checkOwner(f, "uid", t.Uid)
	checkOwner(f, "gid", t.Gid)
	if t.Splay != nil {
		f.CheckDuration("splay", *t.Splay, structs.MaxTaskWait)
	}

	checkWait(f, t)
	checkChange(f, t)
}

// checkWait checks how long a template waits for further changes before it is rendered.
func checkWait(f field.Errors, t *structs.Template) {
	if t.Wait == nil {
		return
	}
	f = f.At("wait")
	least, most := t.WaitBounds()
	f.CheckDuration("min", least, structs.MaxTaskWait)
	f.CheckDuration("max", most, structs.MaxTaskWait)
	f.Require(least <= most, "min %s is above max %s", least, most)
}

// ownError returns the text of an error that quotes only bounded parts of its input.
func ownError(err error) field.Text {
	if err == nil {
		return ""
	}
	return field.Text(err.Error())
}

// checkChange checks what the node does with the task after a change of the file.
func checkChange(f field.Errors, t *structs.Template) {
	f.CheckOneOf("change_mode", t.ChangeMode,
		[]string{structs.TemplateNoop, structs.TemplateRestart, structs.TemplateSignal,
			structs.TemplateScript})
	f.Require(t.ChangeSignal == "" || structs.IsSignal(t.ChangeSignal),
		"change_signal %q is not a signal such as SIGHUP", t.ChangeSignal)
	f.Require(t.ChangeMode != structs.TemplateSignal || !t.Envvars,
		"env: a signal does not change the environment of a process; use change_mode restart")
	script := t.ChangeScript
	f.Require(script != nil || t.ChangeMode != structs.TemplateScript,
		"change_mode script needs a change_script")
	if script == nil {
		return
	}

	f = f.At("change_script")
	f.Require(script.Command != "", "command is required")
	f.AtMost("arguments", len(script.Args), structs.MaxExecArgs-1)
	total := len(script.Command)
	for _, arg := range script.Args {
		total += len(arg)
		f.CheckString("an argument", arg, structs.MaxExecBytes)
	}

	f.CheckBytes("the command", total, structs.MaxExecBytes)
	f.CheckString("command", script.Command, structs.MaxExecBytes)
	f.CheckDuration("timeout", script.Timeout, structs.MaxTaskWait)
}

// checkTaskPath checks a path in the directories of a task. The node checks it again, with its variables
// replaced.
func checkTaskPath(f field.Errors, name, p string) {
	f.CheckText(name, p)
	switch clean := path.Clean(p); {
	case p == "":
		f.Addf("%s is required", name)
	case strings.Contains(p, "${") || strings.HasPrefix(clean, "../alloc/"):
	case clean == ".." || strings.HasPrefix(clean, "../"):
		f.Addf("%s %q leads out of the task's directory; "+
			"expected a path such as local/x, secrets/x or ${NOMAD_ALLOC_DIR}/x", name, p)
	case clean == "." || clean == "/" || strings.HasSuffix(p, "/"):
		f.Addf("%s %q is a directory; expected the path of a file", name, p)
	}
}

// checkOwner checks a user or group ID; nil and -1 are the agent's own.
func checkOwner(f field.Errors, name string, id *int) {
	if id != nil {
		f.CheckRange(name, *id, field.Between(-1, math.MaxInt32))
	}
}
