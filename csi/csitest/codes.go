package csitest

import "berth/structs"

// CodeKinds has for each gRPC code but OK the kind of the error that the servers get from a node. An unknown
// outcome is a timeout.
var CodeKinds = map[string]structs.Kind{
	"Canceled":           structs.KindTimeout,
	"Unknown":            structs.KindTimeout,
	"DeadlineExceeded":   structs.KindTimeout,
	"Unavailable":        structs.KindTimeout,
	"Aborted":            structs.KindTimeout,
	"ResourceExhausted":  structs.KindTimeout,
	"InvalidArgument":    structs.KindInvalid,
	"OutOfRange":         structs.KindInvalid,
	"NotFound":           structs.KindNotFound,
	"AlreadyExists":      structs.KindConflict,
	"PermissionDenied":   structs.KindDenied,
	"Unauthenticated":    structs.KindDenied,
	"FailedPrecondition": structs.KindPrecondition,
	"Unimplemented":      structs.KindPrecondition,
	"Internal":           structs.KindInternal,
	"DataLoss":           structs.KindInternal,
}
