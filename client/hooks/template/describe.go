package template

import (
	"errors"

	"berth/internal/gotext"
	"berth/structs"
)

const hidden = "it failed; the message is not shown, because it may have a value in it"

// describe returns the text of an error without values, which may be secret and would go into the events of
// the task: the line, the function, and the cause if it has no value of the text.
func describe(err error) string {
	failed, ok := errors.AsType[*gotext.Error](err)
	if !ok {
		return err.Error() // of the hook: it has no value of a text
	}

	own, isOwn := errors.AsType[*structs.Error](failed.Cause)
	fault, isFault := errors.AsType[gotext.Fault](failed.Cause)
	switch {
	case isOwn:
		return failed.Where() + own.Error()
	case isFault:
		return failed.Where() + fault.Error()
	}
	return failed.Where() + hidden
}
