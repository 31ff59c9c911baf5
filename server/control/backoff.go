package control

import (
	"time"

	"berth/structs"
)

// lasting are the kinds of error that repeating the call does not change. Internal is not among them: a
// plugin also answers it when it does not know the outcome.
var lasting = map[structs.Kind]bool{
	structs.KindInvalid: true, structs.KindDenied: true, structs.KindNotFound: true,
	structs.KindConflict: true, structs.KindPrecondition: true,
}

// finalRetry is the delay after a call that was denied: permission may be given meanwhile.
const finalRetry = time.Minute

// dueAfter returns when to repeat a call that failed. It reads only the row, so a new leader repeats it at
// the same time.
func (c Config) dueAfter(e *structs.OperationError) time.Time {
	switch {
	case e == nil:
		return time.Time{}
	case e.RetryTime > 0:
		return time.Unix(0, e.RetryTime)
	case lasting[e.Kind]:
		return time.Unix(0, e.Time).Add(finalRetry)
	}
	return time.Unix(0, e.Time).Add(c.Retry.Delay(e.Attempts))
}

// refused are the kinds of error of a wrong request: it is not sent again unchanged (CSI spec, "Error
// Scheme").
var refused = map[structs.Kind]bool{structs.KindInvalid: true, structs.KindConflict: true}

// retryTime is when an attach or a detach that failed is made again, as OperationError has it.
func (c Config) retryTime(e *structs.OperationError) int64 {
	switch {
	case refused[e.Kind], e.Code == "Unimplemented":
		return structs.NeverTry
	case e.Kind == structs.KindDenied:
		return e.Time + int64(finalRetry)
	}
	return e.Time + int64(c.Retry.Delay(e.Attempts))
}
