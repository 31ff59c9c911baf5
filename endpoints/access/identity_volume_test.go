package access_test

import (
	"slices"
	"testing"
	"time"

	"berth/endpoints/endpointstest"
	"berth/structs"
	"berth/structs/access"
)

// asking is a plugin whose job asks for tokens.
func asking(id string, audiences ...string) func(*structs.TaskGroup) {
	return func(g *structs.TaskGroup) {
		c := &structs.CSIPluginConfig{ID: id, Type: structs.CSIPluginNode}
		for _, audience := range audiences {
			c.Tokens = append(c.Tokens, &structs.CSIToken{Audience: audience, TTL: 10 * time.Minute})
		}
		g.Tasks[0].CSIPluginConfig = c
	}
}

// using uses volumes.
func using(volumes ...string) func(*structs.TaskGroup) {
	return func(g *structs.TaskGroup) {
		g.Volumes = map[string]*structs.VolumeRequest{}
		for _, v := range volumes {
			g.Volumes[v] = &structs.VolumeRequest{
				Name: v, Type: "csi", Source: v,
				AccessMode:     structs.CSIMultiNodeMultipleWriter,
				AttachmentMode: structs.CSIFileSystem,
			}
		}
	}
}

// TestSignIdentities_SignsForADriverWhatItsJobAsksFor names the allocation that uses the volume, and none of
// its tasks.
func TestSignIdentities_SignsForADriverWhatItsJobAsksFor(t *testing.T) {
	s := endpointstest.New(t)
	s.AddSigningKeys()
	s.AddNode("n1", "z")
	s.AddNode("n2", "z")
	v := endpointstest.ReadyVolume("v")
	v.RequestedCapabilities = append(v.RequestedCapabilities, &structs.CSIVolumeCapability{
		AccessMode: structs.CSISingleNodeWriter, AttachmentMode: structs.CSIFileSystem,
	})
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(v))
	s.AddVolume("w")
	s.AddAlloc("driver", "n1", asking("pl", "vault", structs.DefaultAudience))
	s.AddAlloc("elsewhere", "n2", asking("pl", "far"))
	s.AddAlloc("other", "n1", asking("other", "vault"))
	s.AddAlloc("former", "n1", asking("pl", "former"))
	s.EndAlloc("former", "n1")
	s.AddAlloc("a1", "n1", using("v"))
	s.AddAlloc("a2", "n1", using("w"))
	s.AddAlloc("a3", "n1", using("v"), func(g *structs.TaskGroup) {
		g.Volumes["v"].AccessMode = structs.CSISingleNodeWriter
	})
	inline := func(plugin string) func(*structs.TaskGroup) {
		return func(g *structs.TaskGroup) {
			g.Volumes = map[string]*structs.VolumeRequest{"tmp": {
				Type: structs.VolumeTypeCSI, Lifecycle: structs.LifecycleInline, PluginID: plugin,
			}}
		}
	}
	s.AddAlloc("a4", "n1", inline("pl"))
	s.AddAlloc("a5", "n1", inline("other"))
	s.Claim("v", "a1", "n1")
	waits := endpointstest.Claim("v", "a3")
	waits.AccessMode = structs.CSISingleNodeWriter
	waits = endpointstest.Must(s, structs.CSIVolumeClaim, &structs.CSIVolumeClaimRequest{
		NodeID: "n1", SecretID: endpointstest.SecretOf("n1"), Claims: []*structs.CSIClaim{waits},
	}).Claims[0]
	if waits.State != structs.ClaimWaiting {
		t.Fatalf("the claim of a3 is %s: %s", waits.State, waits.Reason)
	}
	item := func(alloc, plugin, audience string) access.WantedIdentity {
		return access.WantedIdentity{
			AllocID: alloc, Kind: access.IdentityOfVolume, Workload: plugin, Name: audience}
	}

	got := endpointstest.Must(s, access.IdentitySign, signRequest(item("a1", "pl", "vault"))).Signed[0]
	if got.Rejection != "" {
		t.Fatal(got.Rejection)
	}
	c, algorithm := tokenClaims(s, string(got.JWT))
	if c.Subject != "global:default:job-a1:g::csi-pl" || !slices.Equal(c.Audience, []string{"vault"}) ||
		c.AllocID != "a1" || c.JobID != "job-a1" || c.Task != "" || c.Service != "" ||
		algorithm != access.KeyRS256 {
		t.Errorf("got %s %+v", algorithm, c)
	}
	if life := c.Expiry.Time().Sub(s.Clock); life != 10*time.Minute {
		t.Errorf("it lives for %s", life)
	}

	if got := endpointstest.Must(s, access.IdentitySign,
		signRequest(item("a4", "pl", "vault"))).Signed[0]; got.JWT == "" {
		t.Errorf("an inline volume: %s", got.Rejection)
	}

	for what, w := range map[string]access.WantedIdentity{
		"an inline volume of another plugin":         item("a5", "pl", "vault"),
		"another audience":                           item("a1", "pl", "aws"),
		"the API":                                    item("a1", "pl", structs.DefaultAudience),
		"a driver of another node":                   item("a1", "pl", "far"),
		"a driver that has ended":                    item("a1", "pl", "former"),
		"a plugin whose volume the alloc has not":    item("a1", "other", "vault"),
		"an allocation that has not claimed":         item("a2", "pl", "vault"),
		"an allocation whose claim waits":            item("a3", "pl", "vault"),
		"a driver, which uses no volume":             item("driver", "pl", "vault"),
		"the kind of a task, by the name of a token": {AllocID: "a1", Kind: "task", Workload: "pl", Name: "vault"},
	} {
		got := endpointstest.Must(s, access.IdentitySign, signRequest(w)).Signed[0]
		if got.JWT != "" || got.Rejection == "" {
			t.Errorf("%s: got a token of %d bytes, rejection %q", what, len(got.JWT), got.Rejection)
		}
	}
}
