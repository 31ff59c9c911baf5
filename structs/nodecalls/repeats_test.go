package nodecalls

import (
	"testing"

	"berth/structs"
)

func TestRepeatOf_LooksAtTheFailureAndTheCall(t *testing.T) {
	const attach, detach = "ControllerPublishVolume", "ControllerUnpublishVolume"
	const stage, publish = "NodeStageVolume", "NodePublishVolume"
	const unstage, unpublish = "NodeUnstageVolume", "NodeUnpublishVolume"
	for _, c := range []struct {
		rpc  string
		kind structs.Kind
		code string
		want Repeat
	}{
		{attach, structs.KindInvalid, "InvalidArgument", GiveUp},
		{detach, structs.KindInvalid, "InvalidArgument", Seldom},
		{detach, structs.KindConflict, "AlreadyExists", Seldom},
		{detach, structs.KindPrecondition, "Unimplemented", Seldom},
		{attach, structs.KindPrecondition, "Unimplemented", GiveUp},
		{attach, structs.KindPrecondition, "FailedPrecondition", Growing},
		{attach, structs.KindPrecondition, structs.CSICodeEndsPlugin, GiveUp},
		{detach, structs.KindPrecondition, structs.CSICodeEndsPlugin, Seldom},
		{stage, structs.KindPrecondition, structs.CSICodeEndsPlugin, GiveUp},
		{attach, structs.KindNotFound, "NotFound", Growing},
		{attach, structs.KindDenied, "PermissionDenied", Seldom},
		{attach, structs.KindInternal, "Internal", Growing},
		{attach, structs.KindUnavailable, "Aborted", Growing},
		{attach, structs.KindTimeout, "DeadlineExceeded", Growing},
		{attach, "of a later version", "", Growing},
		{stage, structs.KindInternal, "Internal", Briefly},
		{publish, structs.KindInternal, "DataLoss", Briefly},
		{stage, structs.KindInvalid, "InvalidArgument", GiveUp},
		{publish, structs.KindDenied, "PermissionDenied", GiveUp},
		{publish, structs.KindNotFound, "NotFound", GiveUp},
		{stage, structs.KindPrecondition, "FailedPrecondition", GiveUp},
		{unpublish, structs.KindInvalid, "InvalidArgument", GiveUp},
		{unstage, structs.KindInvalid, "InvalidArgument", GiveUp},
		{unstage, structs.KindPrecondition, "Unimplemented", GiveUp},
		{unpublish, structs.KindConflict, "AlreadyExists", Growing},
		{unstage, structs.KindConflict, "AlreadyExists", Growing},
		{unstage, structs.KindDenied, "PermissionDenied", Growing},
		{unstage, structs.KindInvalid, "OutOfRange", Growing},
		{unpublish, structs.KindInvalid, "", Growing},
		{unpublish, structs.KindPrecondition, structs.CSICodeEndsPlugin, GiveUp},
	} {
		if got := RepeatOf(c.rpc, c.kind, c.code); got != c.want {
			t.Errorf("%s, %s %s: %d, want %d", c.rpc, c.kind, c.code, got, c.want)
		}
	}
}
