package control

import (
	"time"

	"berth/structs"
)

// isLasting reports whether a repeat of the call does not change an error of a kind. Internal is not such a
// kind: a plugin also answers it if the outcome is unknown. Nor is a kind of a later version.
func isLasting(k structs.Kind) bool {
	switch k {
	case structs.KindInvalid, structs.KindDenied, structs.KindNotFound:
		return true
	case structs.KindConflict, structs.KindPrecondition:
		return true
	}
	return false
}

// finalRetry is the delay after a denied call: an operator may grant the permission meanwhile.
const finalRetry = time.Minute

// dueAfter returns when to repeat a call that failed. It reads only the row, so a new leader repeats it at
// the same time.
func (c Config) dueAfter(e *structs.OperationError) time.Time {
	switch {
	case e == nil:
		return time.Time{}
	case e.RetryTime > 0:
		return time.Unix(0, e.RetryTime)
	case isLasting(e.Kind):
		return time.Unix(0, e.Time).Add(finalRetry)
	}
	return time.Unix(0, e.Time).Add(c.Retry.Delay(e.Attempts))
}

// retryTime is the time of the next attempt after a failed attach or detach, as OperationError has it. A
// wrong request is not sent again unchanged (CSI spec, "Error Scheme").
func (c Config) retryTime(e *structs.OperationError) int64 {
	switch {
	case e.Kind == structs.KindInvalid,
		e.Kind == structs.KindConflict,
		e.Code == "Unimplemented":
		return structs.NeverTry
	case e.Kind == structs.KindDenied:
		return e.Time + int64(finalRetry)
	}
	return e.Time + int64(c.Retry.Delay(e.Attempts))
}
