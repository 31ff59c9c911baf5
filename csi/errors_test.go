package csi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"

	"berth/csi"
	"berth/csi/csitest"
	"berth/structs"
	"berth/structs/nodecalls"
)

func TestDuty_C8_C15_C16_EveryCodeHasAKindAndAFinality(t *testing.T) {
	p, c := startPluginWith(t, both, csi.Options{Name: "ebs"})
	for _, tc := range []struct {
		code  string
		kind  structs.Kind
		final bool
	}{
		{"Canceled", structs.KindTimeout, false},
		{"Unknown", structs.KindInternal, false},
		{"InvalidArgument", structs.KindInvalid, true},
		{"DeadlineExceeded", structs.KindTimeout, false},
		{"NotFound", structs.KindNotFound, true},
		{"AlreadyExists", structs.KindConflict, true},
		{"PermissionDenied", structs.KindDenied, true},
		{"ResourceExhausted", structs.KindUnavailable, false},
		{"FailedPrecondition", structs.KindPrecondition, true},
		{"Aborted", structs.KindUnavailable, false},
		{"OutOfRange", structs.KindInvalid, true},
		{"Unimplemented", structs.KindPrecondition, true},
		{"Internal", structs.KindInternal, true},
		{"Unavailable", structs.KindUnavailable, false},
		{"DataLoss", structs.KindInternal, true},
		{"Unauthenticated", structs.KindDenied, true},
	} {
		t.Run(tc.code, func(t *testing.T) {
			p.Fail("DeleteVolume", csitest.Error(tc.code, "the disk says no"))
			err := c.DeleteVolume(t.Context(), &nodecalls.ClientCSIDeleteRequest{ExternalID: "v"})
			wrapped := fmt.Errorf("deleting volume v: %w", err)
			if structs.KindOf(wrapped) != tc.kind ||
				csi.Code(wrapped) != tc.code || csi.Final(wrapped) != tc.final {
				t.Fatalf("%v: kind %s code %s final %v", err, structs.KindOf(wrapped), csi.Code(wrapped),
					csi.Final(wrapped))
			}
			if want := `plugin "ebs": DeleteVolume: ` + tc.code + `: the disk says no`; err.Error() != want {
				t.Fatalf("text %q, want %q", err, want)
			}
		})
	}
	plain := structs.Errorf(structs.KindUnavailable, "no plugin")
	if csi.Code(plain) != "" || csi.Final(plain) ||
		!csi.Final(nil) || csi.Code(nil) != "" {
		t.Fatal("an error from elsewhere is not classified by its kind")
	}
}

func TestDuty_D3_C14_NoSecretLeavesInAnError(t *testing.T) {
	p, c := startPlugin(t, both)
	p.Fail("CreateVolume",
		csitest.Error("Internal", "login as admin with hunter2hunter2 failed,\x1b[31m hunter2 is wrong\n"))
	req := createRequest("n")
	req.Secrets = structs.Secrets{"password": "hunter2", "old": "hunter2hunter2", "x": "a"}
	_, err := c.CreateVolume(t.Context(), req)
	if strings.Contains(err.Error(), "hunter2") ||
		strings.ContainsAny(err.Error(), "\x1b\n") {
		t.Fatalf("%q", err)
	}
	if !strings.Contains(err.Error(), "with [redacted] failed") {
		t.Fatalf("%q", err)
	}
	p.Fail("Probe",
		csitest.Error("Internal", "%s", strings.Repeat("long ", 10000)))
	if _, err := c.Probe(t.Context()); len(err.Error()) > 4096 {
		t.Fatalf("%d bytes of error", len(err.Error()))
	}
}

func TestClient_AMalformedAnswerNamesPluginAndField(t *testing.T) {
	for _, tc := range malformedAnswers() {
		t.Run(tc.rpc+" "+tc.field, func(t *testing.T) {
			p, c := startPluginWith(t, both, csi.Options{Name: "ebs"})
			p.Answer(tc.rpc, tc.resp)
			err := tc.call(c)
			want := `plugin "ebs": ` + tc.rpc + `: the answer's ` + tc.field
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("%v", err)
			}
			if structs.KindOf(err) != structs.KindInternal ||
				csi.Final(err) || csi.Code(err) != "" {
				t.Fatalf("kind %s final %v code %q", structs.KindOf(err),
					csi.Final(err), csi.Code(err))
			}
		})
	}
}

type malformedAnswer struct {
	rpc   string
	resp  proto.Message
	call  func(*csi.Client) error
	field string
}

func malformedAnswers() []malformedAnswer {
	long := strings.Repeat("x", 2000)
	volume := func(v *spec.Volume) proto.Message {
		return &spec.CreateVolumeResponse{Volume: v}
	}
	return []malformedAnswer{
		{"CreateVolume", volume(nil), callCreate, "volume: is missing"},
		{"CreateVolume", volume(&spec.Volume{CapacityBytes: 4096}), callCreate, "volume.volume_id: is empty"},
		{"CreateVolume", volume(&spec.Volume{VolumeId: long}), callCreate, "volume.volume_id: is 2000 bytes"},
		{"CreateVolume", volume(&spec.Volume{VolumeId: "v", CapacityBytes: -1}), callCreate,
			"volume.capacity_bytes: is negative"},
		{"CreateVolume", volume(&spec.Volume{VolumeId: "v", CapacityBytes: 1}), callCreate,
			"volume.capacity_bytes: of 1 is smaller than the 4096"},
		{"ListVolumes", &spec.ListVolumesResponse{Entries: []*spec.ListVolumesResponse_Entry{{}}}, callList,
			"entries[0].volume: is missing"},
		{"ListVolumes",
			&spec.ListVolumesResponse{Entries: []*spec.ListVolumesResponse_Entry{{Volume: &spec.Volume{}}}}, callList,
			"entries[0].volume.volume_id: is empty"},
		{"ListVolumes", &spec.ListVolumesResponse{NextToken: "5"}, callList, "next_token"},
		{"GetPluginInfo", &spec.GetPluginInfoResponse{}, callInfo, "name: is empty"},
		{"GetPluginInfo", &spec.GetPluginInfoResponse{Name: "a b", VendorVersion: "1"}, callInfo, "name:"},
		{"GetPluginInfo", &spec.GetPluginInfoResponse{Name: long, VendorVersion: "1"}, callInfo,
			"name: is 2000 bytes"},
		{"GetPluginInfo", &spec.GetPluginInfoResponse{Name: "a"}, callInfo, "vendor_version: is empty"},
		{"NodeGetInfo", &spec.NodeGetInfoResponse{}, callNode, "node_id: is empty"},
		{"NodeGetInfo", &spec.NodeGetInfoResponse{NodeId: long}, callNode, "node_id: is 2000 bytes"},
		{"NodeGetInfo", &spec.NodeGetInfoResponse{NodeId: "n", MaxVolumesPerNode: -3}, callNode,
			"max_volumes_per_node: is negative"},
		{"ControllerExpandVolume", &spec.ControllerExpandVolumeResponse{CapacityBytes: 5}, callExpand,
			"capacity_bytes: of 5 is smaller"},
		{"ControllerExpandVolume", &spec.ControllerExpandVolumeResponse{CapacityBytes: 1<<60 + 1}, callExpand,
			"capacity_bytes: of 1152921504606846977 is above the 1152921504606846976"},
		{"NodeExpandVolume", &spec.NodeExpandVolumeResponse{CapacityBytes: -5}, callNodeExpand,
			"capacity_bytes: is negative"},
		{"NodeExpandVolume", &spec.NodeExpandVolumeResponse{CapacityBytes: 5}, callNodeExpand,
			"capacity_bytes: of 5 is smaller"},
		{"NodeExpandVolume", &spec.NodeExpandVolumeResponse{CapacityBytes: 1 << 62}, callNodeExpand,
			"capacity_bytes: of 4611686018427387904 is above"},
	}
}

func callCreate(c *csi.Client) error {
	_, err := c.CreateVolume(context.Background(), createRequest("n"))
	return err
}

func callList(c *csi.Client) error {
	_, err := c.ListVolumes(context.Background(),
		&nodecalls.ClientCSIListRequest{StartingToken: "5"})
	return err
}

func callInfo(c *csi.Client) error {
	_, err := c.PluginInfo(context.Background())
	return err
}

func callNode(c *csi.Client) error {
	_, err := c.NodeInfo(context.Background())
	return err
}

func callExpand(c *csi.Client) error {
	_, err := c.ControllerExpandVolume(context.Background(), &nodecalls.ClientCSIExpandRequest{
		ExternalID: "v",
		Capacity:   nodecalls.CSICapacityRange{RequiredBytes: 4096},
	})
	return err
}

func callNodeExpand(c *csi.Client) error {
	_, err := c.NodeExpandVolume(context.Background(), &csi.NodeExpandRequest{
		VolumePath: "/v",
		Use: csi.Use{
			VolumeID:       "v",
			AccessMode:     structs.CSISingleNodeWriter,
			AttachmentMode: structs.CSIFileSystem,
		},
		Capacity: nodecalls.CSICapacityRange{RequiredBytes: 4096},
	})
	return err
}

func TestDuty_C4_C6_ATimeoutIsNotFinal(t *testing.T) {
	p, c := startPluginWith(t, both, csi.Options{Timeout: 20 * time.Millisecond})
	release := p.Hang("DeleteVolume")
	defer release()
	err := c.DeleteVolume(t.Context(), &nodecalls.ClientCSIDeleteRequest{ExternalID: "v"})
	// The deadline travels with the call: the plugin may notice it first and answer Canceled.
	code := csi.Code(err)
	if !structs.IsKind(err, structs.KindTimeout) || (code != "DeadlineExceeded" && code != "Canceled") ||
		csi.Final(err) {
		t.Fatal(err)
	}
}

func TestClient_APluginThatDiesIsUnavailable(t *testing.T) {
	p, c := startPlugin(t, both)
	defer p.Hang("DeleteVolume")()
	got := make(chan error, 1)
	go func() {
		got <- c.DeleteVolume(context.Background(), &nodecalls.ClientCSIDeleteRequest{ExternalID: "v"})
	}()
	if err := p.Await(t.Context(), "DeleteVolume", 1); err != nil {
		t.Fatal(err)
	}
	p.Stop()
	err := <-got
	if !structs.IsKind(err, structs.KindUnavailable) || csi.Final(err) || !csi.Lost(err) {
		t.Fatal(err)
	}
	_, err = c.Probe(t.Context())
	if !csi.Unsent(err) || csi.Lost(err) {
		t.Errorf("a call of a plugin that is gone: %v", err)
	}
}

// An answer has the code of a lost connection.
func TestClient_APluginThatAnswersIsNotLost(t *testing.T) {
	p, c := startPlugin(t, both)
	p.FailAlways("DeleteVolume", csitest.Error("Unavailable", "the array is away"))
	err := c.DeleteVolume(t.Context(), &nodecalls.ClientCSIDeleteRequest{ExternalID: "v"})
	if csi.Code(err) != "Unavailable" || csi.Lost(err) || csi.Unsent(err) {
		t.Errorf("got %v", err)
	}
}

func TestClient_TheGuardGetsTheVolumeOfEachCall(t *testing.T) {
	p := csitest.Start(t, both)
	var got []string
	rejected := errors.New("rejected by the guard")
	c, err := csi.Dial(p.Endpoint(), csi.Options{Guard: func(
		_ context.Context, rpc, volume string, call func() error,
	) error {
		got = append(got, rpc+" "+volume)
		if rpc == "ListVolumes" {
			return rejected
		}
		return call()
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_, err = c.ListVolumes(t.Context(), &nodecalls.ClientCSIListRequest{})
	if !errors.Is(err, rejected) || p.Count("ListVolumes") != 0 {
		t.Errorf("got %v", err)
	}
	_, _ = c.CreateVolume(t.Context(), &nodecalls.ClientCSICreateRequest{
		Name: "v-1",
		Capabilities: []*structs.CSIVolumeCapability{
			{AccessMode: structs.CSISingleNodeWriter, AttachmentMode: structs.CSIFileSystem},
		},
	})
	_ = c.DeleteVolume(t.Context(), &nodecalls.ClientCSIDeleteRequest{ExternalID: "v"})
	snapshots := csi.Snapshots{Client: c}
	cut := &nodecalls.ClientCSISnapshotRequest{SourceExternalID: "v", Name: "s"}
	_, _ = snapshots.Create(t.Context(), cut)
	_ = snapshots.Delete(t.Context(), &nodecalls.ClientCSISnapshotDeleteRequest{ExternalID: "s-1"})
	want := []string{
		"ListVolumes ", "CreateVolume name:v-1", "DeleteVolume v", "CreateSnapshot v",
		"DeleteSnapshot snapshot:s-1",
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("no call %q in %q", w, got)
		}
	}
}
