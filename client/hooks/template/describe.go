package template

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"berth/structs"
)

// errorPlace is the beginning of an error of package text/template: the line, the column, and the text there.
var errorPlace = regexp.MustCompile(
	`^template: .*?:\d+(:\d+)?: (executing ".*?" at <.*?>: )?(error calling [\w.]+: )?`)

// harmless are the beginnings of errors of package text/template that have no value in them, but names and
// types.
var harmless = []string{
	"map has no entry for key ",
	"can't evaluate field ",
	"nil pointer evaluating ",
	"nil data; no entry for key ",
	"wrong number of args ",
	"wrong type for value; ",
	"incompatible types for ",
	"template ", // NAME not defined
	"error calling divide: runtime error: integer divide by zero",
	"error calling modulo: runtime error: integer divide by zero",
}

const hidden = "it failed; the message is not shown, because it may have a value in it"

// describe returns the text of an error without values, which may be secret and would go into the events of
// the task: the line, the function, and the cause if that is a fixed text or one of ours.
func describe(err error) string {
	exec, ok := errors.AsType[template.ExecError](err)
	if !ok {
		return err.Error() // of the hook: it has no value of a text
	}
	text := exec.Error()
	at := errorPlace.FindString(text)
	own, isOwn := errors.AsType[*structs.Error](exec.Err)
	// The cause follows the place in the text.
	_, rest, _ := strings.Cut(text, ">: ")
	switch {
	case isOwn:
		return at + own.Error()
	case slices.ContainsFunc(harmless, func(h string) bool { return strings.HasPrefix(rest, h) }):
		return text
	}
	return at + hidden
}
