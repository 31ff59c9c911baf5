package volume_test

import (
	"strings"
	"testing"

	"berth/api/apitest"
	"berth/cli/clitest"
	"berth/structs"
)

func TestVolumeRetry_NamesWhatItRepeats(t *testing.T) {
	failed := &structs.OperationError{Code: "Internal", Message: "no", Attempts: 1}
	creating := structs.CSIVolume{ID: "data", Namespace: "default", State: structs.VolumeCreating, LastError: failed}
	ready := structs.CSIVolume{ID: "data", Namespace: "default", State: structs.VolumeReady, LastError: failed}
	attached := []*structs.CSIAttachment{{NodeID: "n1", State: structs.AttachmentDetaching, LastError: failed}}
	ended := structs.CSIPlugin{Nodes: map[string]*structs.CSIInfo{"n3": {EndingCalls: []*structs.CSIEndingCall{
		{RPC: "NodePublishVolume", Volume: "ext-bad"}, {RPC: "NodePublishVolume", Volume: "ext-other"},
	}}}}
	bad := structs.CSIVolume{ID: "data", PluginID: "ebs", ExternalID: "ext-bad", State: structs.VolumeReady}
	for name, c := range map[string]struct {
		volume structs.CSIVolumeDetail
		says   string
	}{
		"a call that ended the plugin": {
			structs.CSIVolumeDetail{CSIVolume: bad},
			"retried: NodePublishVolume at node n3, which ended the plugin. See",
		},
		"a creation": {structs.CSIVolumeDetail{CSIVolume: creating}, "retried: the call for the volume itself. See"},
		"a detach": {
			structs.CSIVolumeDetail{CSIVolume: ready, Attachments: attached},
			"retried: detaching at node n1. See",
		},
		"a growth and a release": {
			structs.CSIVolumeDetail{CSIVolume: ready, Claims: []*structs.CSIClaim{
				{NodeID: "n1", ExpandError: failed}, {NodeID: "n2", EndTime: 1, ReleaseError: failed},
			}},
			"retried: growth at node n1, release by node n2. See",
		},
		"a task that runs": {
			structs.CSIVolumeDetail{CSIVolume: ready, Claims: []*structs.CSIClaim{
				{NodeID: "n2", ReleaseError: failed},
			}},
			"Nothing is retried",
		},
		"an old failure": {structs.CSIVolumeDetail{CSIVolume: ready}, "Nothing is retried"},
	} {
		t.Run(name, func(t *testing.T) {
			caller := &apitest.Caller{}
			apitest.Answer(caller, structs.CSIVolumeGet, structs.CSIVolumeGetResponse{Volume: &c.volume})
			apitest.Answer(caller, structs.CSIVolumeRetry, structs.Empty{})
			apitest.Answer(caller, structs.CSIPluginGet, structs.CSIPluginGetResponse{Plugin: &ended})
			addr := clitest.Serve(t, caller, clitest.NewAgent(t.TempDir()))
			code, out, errs := runArgs(t, []string{"volume", "retry", "-address", addr, "data"})
			if code != 0 || !strings.Contains(out, c.says) {
				t.Errorf("exit code %d: %s%s", code, out, errs)
			}
		})
	}
}
