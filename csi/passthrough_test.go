package csi_test

import (
	"context"
	"maps"
	"path/filepath"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"berth/csi"
	"berth/csi/csitest"
	"berth/structs"
	"berth/structs/nodecalls"
)

// Secrets reach every RPC that has a field for them, and contexts and parameters arrive byte for byte.
func TestDuty_B12_D1_F13_G7_SecretsAndContextsArriveAsTheyAre(t *testing.T) {
	cfg := both
	cfg.ControllerCaps = nil
	p, c := startPlugin(t, cfg)
	p.AddVolume("v", 1)
	opaque := map[string]string{"a": "\x01 = & ##", "Ünï": ""}
	calls := callsWithSecrets(t.Context(), c, p.Dir(), opaque)
	for rpc, do := range calls {
		if err := do(); err != nil {
			t.Fatalf("%s: %v", rpc, err)
		}
		if got := p.Calls(rpc)[0].Get("secrets.key"); got != "s3cret" {
			t.Errorf("%s: secrets %q", rpc, got)
		}
	}
	for rpc, got := range map[string]map[string]string{
		"CreateVolume.parameters": request[*spec.CreateVolumeRequest](p,
			"CreateVolume").GetParameters(),
		"ControllerPublishVolume.volume_context": request[*spec.ControllerPublishVolumeRequest](p,
			"ControllerPublishVolume").GetVolumeContext(),
		"ValidateVolumeCapabilities.volume": request[*spec.ValidateVolumeCapabilitiesRequest](p,
			"ValidateVolumeCapabilities").GetVolumeContext(),
		"ValidateVolumeCapabilities.parameters": request[*spec.ValidateVolumeCapabilitiesRequest](p,
			"ValidateVolumeCapabilities").GetParameters(),
		"NodeStageVolume.publish_context": request[*spec.NodeStageVolumeRequest](p,
			"NodeStageVolume").GetPublishContext(),
		"NodeStageVolume.volume_context": request[*spec.NodeStageVolumeRequest](p,
			"NodeStageVolume").GetVolumeContext(),
		"NodePublishVolume.publish_context": request[*spec.NodePublishVolumeRequest](p,
			"NodePublishVolume").GetPublishContext(),
		"NodePublishVolume.volume_context": request[*spec.NodePublishVolumeRequest](p,
			"NodePublishVolume").GetVolumeContext(),
	} {
		if !maps.Equal(got, opaque) {
			t.Errorf("%s: %q", rpc, got)
		}
	}
}

// callsWithSecrets returns a call of each RPC that has secrets, with opaque as its contexts and parameters.
func callsWithSecrets(
	ctx context.Context, c *csi.Client, dir string, opaque map[string]string,
) map[string]func() error {
	secrets := structs.Secrets{"key": "s3cret"}
	target := filepath.Join(dir, "t")
	staging := filepath.Join(dir, "s")
	create := createRequest("n")
	create.Secrets = secrets
	create.Parameters = opaque
	u := testUse("v")
	u.Secrets = secrets
	u.PublishContext = structs.Secrets(opaque)
	u.VolumeContext = opaque
	return map[string]func() error{
		"CreateVolume": func() error {
			_, err := c.CreateVolume(ctx, create)
			return err
		},
		"ControllerPublishVolume": func() error {
			_, err := c.ControllerPublishVolume(ctx, &nodecalls.ClientCSIAttachRequest{
				ExternalID:     "v",
				ExternalNodeID: "n",
				Secrets:        secrets,
				AccessMode:     structs.CSIMultiNodeMultipleWriter,
				AttachmentMode: structs.CSIFileSystem,
				VolumeContext:  opaque,
			})
			return err
		},
		"ControllerUnpublishVolume": func() error {
			return c.ControllerUnpublishVolume(ctx, &nodecalls.ClientCSIDetachRequest{
				ExternalID:     "v",
				ExternalNodeID: "n",
				Secrets:        secrets,
			})
		},
		"ValidateVolumeCapabilities": func() error {
			return c.ValidateVolumeCapabilities(ctx, &nodecalls.ClientCSIValidateRequest{
				ExternalID:   "v",
				Capabilities: oneWriter,
				Context:      opaque,
				Parameters:   opaque,
				Secrets:      secrets,
			})
		},
		"ControllerExpandVolume": func() error {
			_, err := c.ControllerExpandVolume(ctx, &nodecalls.ClientCSIExpandRequest{
				ExternalID: "v",
				Secrets:    secrets,
				Capacity:   nodecalls.CSICapacityRange{RequiredBytes: 2},
			})
			return err
		},
		"NodeStageVolume": func() error {
			return c.NodeStageVolume(ctx,
				&csi.StageRequest{Use: u, StagingPath: staging})
		},
		"NodePublishVolume": func() error {
			return c.NodePublishVolume(ctx, &csi.PublishRequest{Use: u, TargetPath: target})
		},
		"NodeExpandVolume": func() error {
			_, err := c.NodeExpandVolume(ctx, &csi.NodeExpandRequest{
				VolumePath: target,
				Use: csi.Use{
					VolumeID:       "v",
					AccessMode:     structs.CSISingleNodeWriter,
					AttachmentMode: structs.CSIFileSystem,
					Secrets:        secrets,
				},
			})
			return err
		},
		"DeleteVolume": func() error {
			return c.DeleteVolume(ctx, &nodecalls.ClientCSIDeleteRequest{ExternalID: "other", Secrets: secrets})
		},
	}
}

func request[T any](p *csitest.Plugin, rpc string) T {
	return p.Calls(rpc)[0].Request.(any).(T)
}

// A source is sent only to plugins that can make volumes from it.
func TestDuty_F8_SourcesOnlyWhereAnnounced(t *testing.T) {
	for _, announced := range []bool{false, true} {
		cfg := csitest.Config{Controller: true, ControllerCaps: []string{"CREATE_DELETE_VOLUME"}}
		if announced {
			cfg.ControllerCaps = append(cfg.ControllerCaps, "CLONE_VOLUME", "CREATE_DELETE_SNAPSHOT")
		}
		p, c := startPlugin(t, cfg)
		for _, change := range []func(*nodecalls.ClientCSICreateRequest){
			func(r *nodecalls.ClientCSICreateRequest) { r.CloneID = "v" },
			func(r *nodecalls.ClientCSICreateRequest) { r.SnapshotID = "s" },
		} {
			req := createRequest("n")
			change(req)
			_, err := c.CreateVolume(t.Context(), req)
			if (err == nil) != announced ||
				(err != nil && !structs.IsKind(err, structs.KindInvalid)) {
				t.Errorf("announced=%v: %v", announced, err)
			}
		}
		if announced {
			if got := p.Calls("CreateVolume")[1].Get("volume_content_source.snapshot.snapshot_id"); got != "s" {
				t.Errorf("sent %q", got)
			}
		}
	}
}
