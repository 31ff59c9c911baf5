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
	failedIn := func(state string) structs.CSIVolume {
		return structs.CSIVolume{
			ID: "data", Namespace: "default",
			CSIVolumeOrigin: structs.CSIVolumeOrigin{State: state},
			CSIVolumeStatus: structs.CSIVolumeStatus{LastError: failed},
		}
	}
	creating := failedIn(structs.VolumeCreating)
	ready := failedIn(structs.VolumeReady)
	attached := []*structs.CSIAttachment{{NodeID: "n1", State: structs.AttachmentDetaching, LastError: failed}}
	ended := structs.CSIPlugin{Nodes: map[string]*structs.CSIInfo{"n3": {EndingCalls: []*structs.CSIEndingCall{
		{RPC: "NodePublishVolume", Volume: "ext-bad"}, {RPC: "NodePublishVolume", Volume: "ext-other"},
	}}}}
	bad := structs.CSIVolume{
		ID:              "data",
		CSIVolumeSpec:   structs.CSIVolumeSpec{PluginID: "ebs", ExternalID: "ext-bad"},
		CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeReady},
	}
	mounts := []*structs.CSIRetriedMount{{NodeID: "n1", AllocID: "a1"}, {NodeID: "n2", AllocID: "a2"}}
	for name, c := range map[string]struct {
		volume structs.CSIVolumeDetail
		says   string
		mounts []*structs.CSIRetriedMount
	}{
		"mounts that are made again": {
			volume: structs.CSIVolumeDetail{CSIVolume: ready},
			says:   "retried: mount at node n1 for allocation a1, mount at node n2 for allocation a2. See",
			mounts: mounts,
		},
		"a call that ended the plugin": {
			volume: structs.CSIVolumeDetail{CSIVolume: bad},
			says:   "retried: NodePublishVolume at node n3, which ended the plugin. See",
		},
		"a creation": {
			volume: structs.CSIVolumeDetail{CSIVolume: creating},
			says:   "retried: the call for the volume itself. See",
		},
		"a detach": {
			volume: structs.CSIVolumeDetail{CSIVolume: ready, Attachments: attached},
			says:   "retried: detaching at node n1. See",
		},
		"a growth and a release": {
			volume: structs.CSIVolumeDetail{CSIVolume: ready, Claims: []*structs.CSIClaim{
				{NodeID: "n1", ExpandError: failed}, {NodeID: "n2", EndTime: 1, ReleaseError: failed},
			}},
			says: "retried: growth at node n1, release by node n2. See",
		},
		"a task that runs": {
			volume: structs.CSIVolumeDetail{CSIVolume: ready, Claims: []*structs.CSIClaim{
				{NodeID: "n2", ReleaseError: failed},
			}},
			says: "Nothing is retried",
		},
		"an old failure": {
			volume: structs.CSIVolumeDetail{CSIVolume: ready},
			says:   "Nothing is retried",
		},
	} {
		t.Run(name, func(t *testing.T) {
			caller := &apitest.Caller{}
			apitest.Answer(caller, structs.CSIVolumeGet, structs.CSIVolumeGetResponse{Volume: &c.volume})
			apitest.Answer(caller, structs.CSIVolumeRetry, structs.CSIVolumeRetryResponse{Mounts: c.mounts})
			apitest.Answer(caller, structs.CSIPluginGet, structs.CSIPluginGetResponse{Plugin: &ended})
			addr := clitest.Serve(t, caller, clitest.NewAgent(t.TempDir()))
			code, out, errs := runArgs(t, []string{"volume", "retry", "-address", addr, "data"})
			if code != 0 || !strings.Contains(out, c.says) {
				t.Errorf("exit code %d: %s%s", code, out, errs)
			}
		})
	}
}
