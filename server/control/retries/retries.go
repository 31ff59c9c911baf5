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

// Final is the delay after a denied call: an operator may grant the permission meanwhile.
const Final = time.Minute

// Lasting reports whether a repeat of the call does not change an error of a kind. Internal is not such a
// kind: a plugin also answers it if the outcome is unknown. Nor is a kind of a later version.
func Lasting(k structs.Kind) bool {
	switch k {
	case structs.KindInvalid, structs.KindDenied, structs.KindNotFound:
		return true
	case structs.KindConflict, structs.KindPrecondition:
		return true
	}
	return false
}

// Due returns the time of a timer for the repeat of a call that failed. It is zero, at once, without a
// failure.
func Due(at *clock.Cluster, b backoff.Backoff, e *structs.OperationError) time.Time {
	switch {
	case e == nil:
		return time.Time{}
	case e.RetryTime > 0:
		return at.After(e.Time, time.Duration(e.RetryTime-e.Time))
	}
	return at.After(e.Time, delay(b, e))
}

// Time returns the time (UnixNano) of the next attempt after a failed call of a node or a controller.
func Time(b backoff.Backoff, e *structs.OperationError) int64 { return e.Time + int64(delay(b, e)) }

func delay(b backoff.Backoff, e *structs.OperationError) time.Duration {
	if Lasting(e.Kind) {
		return Final
	}
	return b.Delay(e.Attempts)
}

// ControllerTime is Time for a failed call of a controller, which the RPC names. A wrong request is not sent
// again unchanged (CSI spec, "Error Scheme"): see nodecalls.RepeatOf.
func ControllerTime(b backoff.Backoff, e *structs.OperationError, rpc string) int64 {
	wait := b.Delay(e.Attempts)
	switch nodecalls.RepeatOf(rpc, e.Kind, e.Code) {
	case nodecalls.GiveUp:
		return structs.NeverTry
	case nodecalls.Seldom:
		wait = Final
	}
	return e.Time + int64(wait)
}
