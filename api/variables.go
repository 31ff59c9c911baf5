package api

import "berth/structs"

// The routes of variables reject all requests with a reason, so that users of the dialect see it.
var (
	_ = handle(get, "/v1/vars", rejectVariable)
	_ = handle(get, "/v1/var/{path...}", rejectVariable)
	_ = handle(put, "/v1/var/{path...}", rejectVariable)
	_ = handle(remove, "/v1/var/{path...}", rejectVariable)
)

func rejectVariable(*call) (any, error) {
	return nil, structs.Preconditionf("berth has no variables: " +
		"it would have to encrypt them, and it does not encrypt the state of its servers yet")
}
