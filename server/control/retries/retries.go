// Package retries decides when the leader repeats a call that failed. It reads only the row, so a new leader
// repeats the call at the same time.
//
// The times are of the cluster (package clustertime). One that is far ahead of it delays nothing: the leader
// of another version has recorded it by its wall clock.
package retries

import (
	"time"

	"berth/internal/backoff"
	"berth/server/clock"
	"berth/structs"
	"berth/structs/nodecalls"
)

// Final is the delay of nodecalls.Seldom: an operator may grant a permission meanwhile.
const Final = time.Minute

// Due returns the time of a timer for the repeat of a call that failed, which the RPC names. It is zero, at
// once, without a failure.
func Due(at *clock.Cluster, b backoff.Backoff, e *structs.OperationError, rpc string) time.Time {
	switch {
	case e == nil:
		return time.Time{}
	case e.RetryTime > 0:
		return at.After(e.Time, time.Duration(e.RetryTime-e.Time))
	}
	wait, _ := pause(b, e, rpc)
	return at.After(e.Time, wait)
}

// Time returns the time (UnixNano) of the next attempt after a failed call, which the RPC names.
func Time(b backoff.Backoff, e *structs.OperationError, rpc string) int64 {
	wait, again := pause(b, e, rpc)
	if !again {
		return structs.NeverTry
	}
	return e.Time + int64(wait)
}

// pause returns the time until the next attempt. again is false if there is none: then it is the time after
// which a row that says nothing of this is looked at.
func pause(b backoff.Backoff, e *structs.OperationError, rpc string) (wait time.Duration, again bool) {
	switch nodecalls.RepeatOf(rpc, e.Kind, e.Code) {
	case nodecalls.GiveUp:
		return Final, false
	case nodecalls.Seldom:
		return Final, true
	}
	return b.Delay(e.Attempts), true
}

// GivesUp reports whether a failed call, which the RPC names, is not repeated by itself.
func GivesUp(rpc string, err error) bool {
	return nodecalls.RepeatOf(rpc, structs.KindOf(err), structs.CodeOf(err)) == nodecalls.GiveUp
}
