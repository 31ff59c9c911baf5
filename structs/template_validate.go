package structs

import (
	"math"
	"path"
	"strings"
)

// validateTemplates checks the templates of a task.
func (t *Task) validateTemplates(f fieldErrors) {
	seen := map[string]bool{}
	for i, x := range firstOf(f, "templates", t.Templates, MaxTemplates) {
		if x == nil {
			f.addf("template %d is null", i+1)
			continue
		}

		f := f.at("template %d", i+1)
		x.validate(f)
		if t.Driver == driverExec && !path.IsAbs(x.DestPath) {
			f.checkInRoot(x.DestPath)
			f.require(!isTopFile(x.DestPath) || x.ChangeMode == "" || x.ChangeMode == TemplateRestart,
				"destination %q: a task of the driver exec sees a change of a file that is in no folder after a restart "+
					"only; use change_mode restart, or a folder such as local", x.DestPath)
		}

		clean := path.Clean(x.DestPath)
		f.require(!seen[clean], "destination %q is that of another template of the task", x.DestPath)
		seen[clean] = true
	}
}

func (t *Template) validate(f fieldErrors) {
	switch {
	case t.SourcePath == "" && t.EmbeddedTmpl == "":
		f.addf("data or source is required")
	case t.SourcePath != "" && t.EmbeddedTmpl != "":
		f.addf("data and source exclude each other")
	case t.SourcePath != "":
		f.checkTaskPath("source", t.SourcePath)
	}

	f.checkTaskPath("destination", t.DestPath)
	f.checkString("left_delimiter", t.LeftDelim, MaxDelimiter)
	f.checkString("right_delimiter", t.RightDelim, MaxDelimiter)
	if t.EmbeddedTmpl != "" {
		_, faults := t.parseText(t.EmbeddedTmpl)
		for _, err := range faults {
			f.addf("data: %v", ownError(err))
		}
	}

	_, err := t.Mode()
	f.require(err == nil, "perms %q must be an octal number from 0 to 777", t.Perms)
	f.checkOwner("uid", t.Uid)
	f.checkOwner("gid", t.Gid)
	if t.Splay != nil {
		f.checkDuration("splay", *t.Splay, MaxTaskWait)
	}

	t.validateWait(f)
	t.validateChange(f)
}

func (t *Template) validateWait(f fieldErrors) {
	if t.Wait == nil {
		return
	}
	f = f.at("wait")
	least, most := t.WaitBounds()
	f.checkDuration("min", least, MaxTaskWait)
	f.checkDuration("max", most, MaxTaskWait)
	f.require(least <= most, "min %s is above max %s", least, most)
}

// ownError returns the text of an error that quotes only bounded parts of its input.
func ownError(err error) ownText {
	if err == nil {
		return ""
	}
	return ownText(err.Error())
}

func (t *Template) validateChange(f fieldErrors) {
	f.checkOneOf("change_mode", t.ChangeMode,
		[]string{TemplateNoop, TemplateRestart, TemplateSignal, TemplateScript})
	f.require(t.ChangeSignal == "" || IsSignal(t.ChangeSignal),
		"change_signal %q is not a signal such as SIGHUP", t.ChangeSignal)
	f.require(t.ChangeMode != TemplateSignal || !t.Envvars,
		"env: a signal does not change the environment of a process; use change_mode restart")
	script := t.ChangeScript
	f.require(script != nil || t.ChangeMode != TemplateScript, "change_mode script needs a change_script")
	if script == nil {
		return
	}

	f = f.at("change_script")
	f.require(script.Command != "", "command is required")
	f.atMost("arguments", len(script.Args), MaxExecArgs-1)
	total := len(script.Command)
	for _, arg := range script.Args {
		total += len(arg)
		f.checkString("an argument", arg, MaxExecBytes)
	}

	f.checkBytes("the command", total, MaxExecBytes)
	f.checkString("command", script.Command, MaxExecBytes)
	f.checkDuration("timeout", script.Timeout, MaxTaskWait)
}

// checkTaskPath checks a path in the directories of a task. The node checks it again, with its variables
// replaced.
func (f fieldErrors) checkTaskPath(name, p string) {
	f.checkText(name, p)
	switch clean := path.Clean(p); {
	case p == "":
		f.addf("%s is required", name)
	case strings.Contains(p, "${") || strings.HasPrefix(clean, "../alloc/"):
	case clean == ".." || strings.HasPrefix(clean, "../"):
		f.addf("%s %q leads out of the task's directory; "+
			"expected a path such as local/x, secrets/x or ${NOMAD_ALLOC_DIR}/x", name, p)
	case clean == "." || clean == "/" || strings.HasSuffix(p, "/"):
		f.addf("%s %q is a directory; expected the path of a file", name, p)
	}
}

// checkOwner checks a user or group ID; nil and -1 are the agent's own.
func (f fieldErrors) checkOwner(name string, id *int) {
	if id != nil {
		f.checkRange(name, *id, intRange{-1, math.MaxInt32, ""})
	}
}
