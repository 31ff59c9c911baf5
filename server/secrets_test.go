package server

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/internal/agenttest"
	"berth/internal/codec"
	"berth/internal/keyring/keyringtest"
	"berth/internal/snaparchive"
	"berth/rpc"
	"berth/state"
	"berth/structs"
	"berth/test/kit"
)

// mustCall calls a method of a server over its own RPC.
func mustCall[Req, Resp any](r *running, m structs.Method[Req, Resp], req *Req) *Resp {
	r.t.Helper()
	agenttest.Stamp(req)
	resp, err := rpc.Call(r.t.Context(), r, m, req)
	if err != nil {
		r.t.Fatalf("%s: %v", m.Name, err)
	}
	return resp
}

// addNode registers a node with the node half of a plugin that needs no attach.
func (r *running) addNode(id string) {
	r.t.Helper()
	mustCall(r, structs.NodeRegister, &structs.NodeRegisterRequest{
		Node: &structs.Node{
			ID:         id,
			SecretID:   id,
			Name:       id,
			Datacenter: "dc1",
			Status:     structs.NodeReady,
			Drivers:    map[string]*structs.DriverInfo{"exec": {Detected: true, Healthy: true}},
			NodeResources: &structs.NodeResources{
				CPU:    structs.NodeCPUResources{CpuShares: 9000},
				Memory: structs.NodeMemoryResources{MemoryMB: 9000},
				Disk:   structs.NodeDiskResources{DiskMB: 90000},
			},
		},
		CSI: []*structs.CSIPluginInstance{{
			Kind:   structs.CSIKindNode,
			NodeID: id,
			CSIInfo: structs.CSIInfo{
				PluginID: "p",
				Healthy:  true,
				NodeInfo: &structs.CSINodeInfo{ID: id},
			},
		}},
	})
}

// claimed registers a volume with the canary, runs a job and claims the volume for its allocation.
func (r *running) claimed() (alloc string) {
	r.t.Helper()
	r.addNode("n1")
	mustCall(r, structs.CSIVolumeRegister, &structs.CSIVolumeRegisterRequest{
		Volumes: []*structs.CSIVolume{{
			ID: "v",
			CSIVolumeSpec: structs.CSIVolumeSpec{
				ExternalID: "disk-v",
				PluginID:   "p",
				Secrets:    structs.Secrets{"password": plainSecret},
				RequestedCapabilities: []*structs.CSIVolumeCapability{
					{AccessMode: structs.CSISingleNodeWriter, AttachmentMode: structs.CSIFileSystem}},
			},
		}},
	})
	r.register("j")
	r.rows("the allocation is placed", func(tx *state.ReadTx) bool {
		for a := range state.AllocsByJob(tx, structs.DefaultNamespace, "j") {
			alloc = a.ID
		}
		return alloc != ""
	})
	mustCall(r, structs.CSIVolumeClaim, &structs.CSIVolumeClaimRequest{
		NodeID:   "n1",
		SecretID: "n1",
		Claims: []*structs.CSIClaim{{
			VolumeID:       "v",
			AllocID:        alloc,
			Mode:           structs.ClaimWrite,
			AccessMode:     structs.CSISingleNodeWriter,
			AttachmentMode: structs.CSIFileSystem,
		}},
	})
	return alloc
}

// savedState returns the state in an archive of the server.
func (r *running) savedState() string {
	r.t.Helper()
	var archive bytes.Buffer
	if err := r.SnapshotSave(r.t.Context(), &archive); err != nil {
		r.t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(r.t.TempDir(), "state"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if _, err := snaparchive.Read(&archive, file); err != nil {
		r.t.Fatal(err)
	}
	b, err := os.ReadFile(file.Name())
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b)
}

// onWire returns an answer as RPC and as HTTP carry it.
func onWire(t *testing.T, answer any) string {
	t.Helper()
	packed, err := codec.Encode(answer)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	return string(packed) + string(text)
}

// TestDuty_A7_D3_SecretsOfVolumesAreNowhereInPlainText looks for a secret in all that a server writes and
// answers. Only the node of the claim gets it.
func TestDuty_A7_D3_SecretsOfVolumesAreNowhereInPlainText(t *testing.T) {
	noLeaks(t)
	cfg := testConfig(t)
	cfg.Keyring.File = keyringtest.NewFile(t)
	log := &kit.Output{}
	s, err := New(cfg, hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: log}))
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, s)
	r.awaitRootKey()
	alloc := r.claimed()

	got := mustCall(r, structs.CSIClaimGet, &structs.CSIClaimGetRequest{
		VolumeID: "v",
		AllocID:  alloc,
		NodeID:   "n1",
		SecretID: "n1",
	})
	if !got.Ready || got.Volume.Secrets["password"] != plainSecret {
		t.Errorf("the node got %+v, want the secret", got)
	}

	for place, text := range map[string]string{
		"the archive":         r.savedState(),
		"the log":             log.String(),
		"the volume":          onWire(t, mustCall(r, structs.CSIVolumeGet, &structs.CSIVolumeGetRequest{ID: "v"})),
		"the list of volumes": onWire(t, mustCall(r, structs.CSIVolumeList, &structs.CSIVolumeListRequest{})),
		"the claims": onWire(t, mustCall(r, structs.CSIClaimList,
			&structs.CSIClaimListRequest{VolumeID: "v"})),
		"the allocation": onWire(t, mustCall(r, structs.AllocGet, &structs.AllocGetRequest{AllocID: alloc})),
		"the node":       onWire(t, mustCall(r, structs.NodeGet, &structs.NodeGetRequest{NodeID: "n1"})),
		"the statistics": onWire(t, r.Stats()),
	} {
		if text == "" || strings.Contains(text, plainSecret) {
			t.Errorf("%s has the secret, or is empty", place)
		}
	}
	if found := filesWith(t, cfg.DataDir, plainSecret); len(found) > 0 {
		t.Errorf("%v have the secret", found)
	}
	r.stop()
	if found := filesWith(t, cfg.DataDir, plainSecret); len(found) > 0 {
		t.Errorf("after the stop %v have the secret", found)
	}
}
