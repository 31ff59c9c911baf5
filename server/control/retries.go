package control

import (
	"time"

	"berth/internal/backoff"
	"berth/server/clock"
	"berth/structs"
	"berth/structs/nodecalls"
)

// finalDelay is the delay of nodecalls.Seldom: an operator may grant a permission meanwhile.
const finalDelay = time.Minute

// retryDue returns the time of a timer for the repeat of a call that failed, which the RPC names. It is zero,
// at once, without a failure. It reads only the row, so a new leader repeats the call at the same time.
//
// The times are of the cluster (package clustertime). One that is far ahead of it delays nothing: the leader
// of another version has recorded it by its wall clock.
func retryDue(at *clock.Cluster, b backoff.Backoff, e *structs.OperationError, rpc string) time.Time {
	switch {
	case e == nil:
		return time.Time{}
	case e.RetryTime > 0:
		return at.After(e.Time, time.Duration(e.RetryTime-e.Time))
	}
	wait, _ := retryPause(b, e, rpc)
	return at.After(e.Time, wait)
}

// retryTime returns the time (UnixNano) of the next attempt after a failed call, which the RPC names.
func retryTime(b backoff.Backoff, e *structs.OperationError, rpc string) int64 {
	wait, again := retryPause(b, e, rpc)
	if !again {
		return structs.NeverTry
	}
	return e.Time + int64(wait)
}

// retryPause returns the time until the next attempt. again is false if there is none: then it is the time
// after which a row that says nothing of this is looked at.
func retryPause(b backoff.Backoff, e *structs.OperationError, rpc string) (wait time.Duration, again bool) {
	switch nodecalls.RepeatOf(rpc, e.Kind, e.Code) {
	case nodecalls.GiveUp:
		return finalDelay, false
	case nodecalls.Seldom:
		return finalDelay, true
	}
	return b.Delay(e.Attempts), true
}

// givesUp reports whether a failed call, which the RPC names, is not repeated by itself.
func givesUp(rpc string, err error) bool {
	return nodecalls.RepeatOf(rpc, structs.KindOf(err), structs.CodeOf(err)) == nodecalls.GiveUp
}
