package nodecalls

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
		{stage, structs.KindInternal, "Unknown", Growing},
		{stage, structs.KindInternal, "Internal", Briefly},
		{publish, structs.KindInternal, "DataLoss", Briefly},
		{stage, structs.KindInvalid, "InvalidArgument", GiveUp},
		{publish, structs.KindDenied, "PermissionDenied", GiveUp},
		{publish, structs.KindNotFound, "NotFound", Confirm},
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
		{"DeleteVolume", structs.KindPrecondition, "FailedPrecondition", Growing},
		{"DeleteVolume", structs.KindPrecondition, "", GiveUp}, // attached, so the plugin was not called
		{"DeleteVolume", structs.KindInternal, "Internal", Growing},
		{"CreateVolume", structs.KindPrecondition, structs.CSICodeExhausted, GiveUp}, // as the plugin's answer
		{"CreateVolume", structs.KindTimeout, structs.CSICodeExhausted, Growing},
		{"ControllerExpandVolume", structs.KindPrecondition, "FailedPrecondition", Growing},
		{OfflineExpansion, structs.KindPrecondition, "FailedPrecondition", GiveUp},
		{"NodeExpandVolume", structs.KindPrecondition, "FailedPrecondition", GiveUp},
		{"NodeExpandVolume", structs.KindDenied, "PermissionDenied", Seldom},
		{"Probe", structs.KindInvalid, "InvalidArgument", Growing},
	} {
		if got := RepeatOf(c.rpc, c.kind, c.code); got != c.want {
			t.Errorf("%s, %s %s: %d, want %d", c.rpc, c.kind, c.code, got, c.want)
		}
	}
}

func TestTriesOther_UnlessTheCallMayHaveBegun(t *testing.T) {
	for _, c := range []struct {
		kind structs.Kind
		code string
		want bool
	}{
		{structs.KindUnavailable, "", true},
		{structs.KindUnavailable, "Unavailable", true},
		{structs.KindUnavailable, structs.CSICodeAborted, false},
		{structs.KindTimeout, "", false},
		{structs.KindInternal, "Internal", false},
	} {
		if got := TriesOther(c.kind, c.code); got != c.want {
			t.Errorf("%s %s: %v, want %v", c.kind, c.code, got, c.want)
		}
	}
}

// pageCodes are the columns of the table in docs/storage/driver-errors.md: codes with one answer to each
// call.
var pageCodes = [][]string{
	{"3 InvalidArgument"},
	{"11 OutOfRange"},
	{"7 PermissionDenied", "16 Unauthenticated"},
	{"5 NotFound"},
	{"6 AlreadyExists"},
	{"9 FailedPrecondition"},
	{"12 Unimplemented", structs.CSICodeEndsPlugin},
	{"13 Internal", "15 DataLoss"},
	{"1 Canceled", "2 Unknown", "4 DeadlineExceeded", "8 ResourceExhausted", "10 Aborted", "14 Unavailable"},
}

// pageCalls are its rows: calls with one answer to each code.
var pageCalls = [][]string{
	{"ControllerPublishVolume"},
	{"ControllerUnpublishVolume"},
	{"NodeStageVolume", "NodePublishVolume"},
	{"NodeUnpublishVolume", "NodeUnstageVolume"},
	{"CreateVolume", "CreateSnapshot", "CreateVolumeGroupSnapshot"},
	{"DeleteVolume", "DeleteSnapshot", "DeleteVolumeGroupSnapshot"},
	{UndoneSnapshot},
	{"ControllerExpandVolume"},
	{OfflineExpansion},
	{"ControllerModifyVolume"},
	{"NodeExpandVolume"},
}

// pageWords are the words of the page for an answer.
var pageWords = map[Repeat]string{
	GiveUp: "given up", Briefly: "briefly", Confirm: "confirmed", Seldom: "each minute", Growing: "backoff",
}

// answerTo returns the word for one answer to all failures of some calls.
func answerTo(t *testing.T, calls, failures []string) string {
	t.Helper()
	words := map[string]bool{}
	word := ""
	for _, rpc := range calls {
		for _, failure := range failures {
			number, code, numbered := strings.Cut(failure, " ")
			kind := structs.KindPrecondition // of a call that was not made
			if numbered {
				n, err := strconv.Atoi(number)
				if err != nil {
					t.Fatal(err)
				}
				kind = structs.KindFromGRPC(uint32(n))
			} else {
				code = failure
			}
			word = pageWords[RepeatOf(rpc, kind, code)]
			words[word] = true
		}
	}
	if len(words) != 1 {
		t.Errorf("%v has different answers to %v: %v", calls, failures, words)
	}
	return word
}

// TestPolicy_IsThatOfThePage compares the policy with the table of docs/storage/driver-errors.md.
func TestPolicy_IsThatOfThePage(t *testing.T) {
	header := "| call |"
	for _, failures := range pageCodes {
		header += " " + strings.Join(failures, ", ") + " |"
	}
	header += "\n"
	want := header + strings.Repeat("|---", len(pageCodes)+1) + "|\n"
	left := maps.Clone(policy)
	for _, calls := range pageCalls {
		row := "| " + strings.Join(calls, "; ") + " |"
		for _, rpc := range calls {
			delete(left, rpc)
		}
		for _, failures := range pageCodes {
			row += " " + answerTo(t, calls, failures) + " |"
		}
		want += row + "\n"
	}
	for rpc := range left {
		t.Errorf("the page has no row for %s", rpc)
	}

	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "storage", "driver-errors.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\n\n"+want+"\n") {
		t.Errorf("the table of the page is not that of the policy, which is\n%s", want)
	}
}
