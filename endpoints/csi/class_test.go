package csi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"berth/structs"
	"berth/structs/storage"
)

// putClass stores the class "fast" of the plugin of testVolume, after edits.
func (s *server) putClass(edits ...func(*storage.VolumeClass)) {
	s.T.Helper()
	c := &storage.VolumeClass{
		Name:         "fast",
		PluginID:     testVolume("v").PluginID,
		Parameters:   map[string]string{"type": "image"},
		MountOptions: &structs.CSIMountOptions{FSType: "xfs", MountFlags: []string{"secret"}},
	}
	for _, edit := range edits {
		edit(c)
	}
	must(s, storage.ClassPut, &storage.ClassPutRequest{Class: c})
}

func TestClasses_AreShownWithoutTheirMountFlags(t *testing.T) {
	s := newServer(t)
	s.putClass()
	s.putClass(func(c *storage.VolumeClass) { c.Name = "archive" })
	list := must(s, storage.ClassList, &structs.QueryRequest{})
	require.Len(t, list.Classes, 2)
	require.Equal(t, "archive", list.Classes[0].Name)
	list = must(s, storage.ClassList, &structs.QueryRequest{QueryOptions: structs.QueryOptions{Prefix: "f"}})
	require.Len(t, list.Classes, 1)

	got := must(s, storage.ClassGet, &storage.ClassGetRequest{Name: "fast"}).Class
	require.Equal(t, []string{structs.RedactedFlag}, got.MountOptions.MountFlags)
	must(s, storage.ClassPut, &storage.ClassPutRequest{Class: got})
	must(s, storage.ClassDelete, &storage.ClassDeleteRequest{Name: "fast"})
	rejected(s, structs.KindNotFound, storage.ClassGet, &storage.ClassGetRequest{Name: "fast"})
}

// requested is a volume without the values of its class.
func requested(id, className string) *structs.CSIVolume {
	v := testVolume(id)
	v.PluginID = ""
	v.Class = className
	v.Secrets = nil
	v.MountOptions = nil
	return v
}

func TestVolumeCreate_TakesTheValuesOfItsClass(t *testing.T) {
	s := newServer(t)
	s.AddRootKey("k1")
	s.AddNode("n1", "a")
	s.putVariable("nomad/volumes/default/v", "password", "hunter2")
	s.putClass(func(c *storage.VolumeClass) {
		c.Default = true
		c.SecretsFrom = "nomad/volumes/{namespace}/{id}"
	})
	made := 0
	stop := s.runLeader(func(v *structs.CSIVolume) *structs.CSIVolumeOutcome {
		made++
		return created(v)
	})
	defer stop()

	for _, name := range []string{"", "fast"} {
		got := must(s, structs.CSIVolumeCreate, registerRequest(requested("v", name))).Volumes[0]
		require.Equal(t, "fast", got.Class)
		require.Equal(t, "pl", got.PluginID)
		require.Equal(t, map[string]string{"type": "image"}, got.Parameters)
		require.Equal(t, "nomad/volumes/default/v", got.SecretsFrom)
		require.Equal(t, []string{structs.RedactedFlag}, got.MountOptions.MountFlags)
	}
	require.Equal(t, []string{"secret"}, s.row("v").MountOptions.MountFlags)

	// A later change of the class does not reach the volume, also not by its own file.
	s.putClass(func(c *storage.VolumeClass) { c.MountOptions = nil })
	must(s, structs.CSIVolumeCreate, registerRequest(requested("v", "fast")))
	require.Equal(t, "xfs", s.row("v").MountOptions.FSType)
	require.Equal(t, 1, made)

	list := must(s, structs.CSIVolumeList, &structs.CSIVolumeListRequest{Class: "fast"})
	require.Len(t, list.Volumes, 1)
	require.Equal(t, "fast", list.Volumes[0].Class)
	require.Empty(t, must(s, structs.CSIVolumeList, &structs.CSIVolumeListRequest{Class: "slow"}).Volumes)
	rejected(s, structs.KindPrecondition, storage.ClassDelete, &storage.ClassDeleteRequest{Name: "fast"})
}

func TestVolumeCreate_NeedsAPluginOrAClass(t *testing.T) {
	s := newServer(t)
	s.AddNode("n1", "a")
	err := rejected(s, structs.KindInvalid, structs.CSIVolumeCreate, registerRequest(requested("v", "")))
	require.ErrorContains(t, err, `volume "v": plugin_id is required, or class`)
	rejected(s, structs.KindInvalid, structs.CSIVolumeCreate, registerRequest(requested("v", "fast")))
	s.putClass()
	v := requested("v", "fast")
	v.Parameters = map[string]string{"type": "other"}
	err = rejected(s, structs.KindInvalid, structs.CSIVolumeCreate, registerRequest(v))
	require.ErrorContains(t, err, `another value for "type"`)
	require.Nil(t, s.row("v"))
}

func TestVolumeRegister_TakesTheValuesOfItsClass(t *testing.T) {
	s := newServer(t)
	s.AddNode("n1", "a")
	s.putClass(func(c *storage.VolumeClass) {
		c.Default = true
		c.AllowedTopologies = []*structs.CSITopology{{Segments: map[string]string{"zone": "b"}}}
	})
	v := requested("v", "fast")
	v.ExternalID = "ext-v"
	got := must(s, structs.CSIVolumeRegister, registerRequest(v)).Volumes[0]
	require.Equal(t, "pl", got.PluginID)
	require.Empty(t, got.Topologies, "the class does not say where a volume is")

	v = requested("w", "")
	v.ExternalID = "ext-w"
	rejected(s, structs.KindInvalid, structs.CSIVolumeRegister, registerRequest(v))
}

// The operator who makes a class decides on its variable, and the creator of a volume needs no right on it.
func TestVolumeCreate_NeedsNoRightOnTheVariableOfItsClass(t *testing.T) {
	s := newServer(t)
	s.AddRootKey("k1")
	s.AddNode("n1", "a")
	s.putVariable("nomad/volumes/default/v", "password", "hunter2")
	s.putClass(func(c *storage.VolumeClass) { c.SecretsFrom = "nomad/volumes/{namespace}/{id}" })
	defer s.runLeader(created)()
	token := s.guard("namespace \"default\" {\n  capabilities = [\"csi-write-volume\"]\n}\n")

	req := registerRequest(requested("v", "fast"))
	req.AuthToken = token
	got := must(s, structs.CSIVolumeCreate, req).Volumes[0]
	require.Equal(t, "nomad/volumes/default/v", got.SecretsFrom)

	other := requested("w", "")
	other.PluginID = testVolume("w").PluginID
	other.SecretsFrom = "nomad/volumes/default/v"
	req = registerRequest(other)
	req.AuthToken = token
	rejected(s, structs.KindDenied, structs.CSIVolumeCreate, req)
}
