package server

import (
	"strings"
	"testing"

	"berth/rpc"
	"berth/state"
	"berth/structs"
)

func TestServer_StoresSourcesUpToItsSetting(t *testing.T) {
	noLeaks(t)
	cfg := testConfig(t)
	cfg.JobSource = 14 // with the 4 bytes of the format
	s := run(t, cfg)
	s.register("j")
	register := &structs.JobRegisterRequest{Job: state.Job(s.store.Read(), "default", "j")}
	for size, want := range map[int]string{
		10: "",
		11: "it has 15 bytes",
	} {
		register.Submission = &structs.JobSubmission{Source: strings.Repeat("x", size), Format: structs.FormatHCL2}
		got, err := rpc.Call(t.Context(), s, structs.JobRegister, register)
		if err != nil || (want == "") != (got.Warnings == "") || !strings.Contains(got.Warnings, want) {
			t.Errorf("%d bytes: %+v, %v, want the warning %q", size, got, err, want)
		}
	}
}
