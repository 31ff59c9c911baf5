package csi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"berth/endpoints/endpointstest"
	"berth/structs"
	"berth/structs/storage"
)

// putClass stores the class "fast" of the plugin of testVolume, after edits.
func putClass(s *endpointstest.Server, edits ...func(*storage.VolumeClass)) {
	s.T.Helper()
	c := &storage.VolumeClass{
		Name:         "fast",
		PluginID:     endpointstest.Volume("v").PluginID,
		Parameters:   map[string]string{"type": "image"},
		MountOptions: &structs.CSIMountOptions{FSType: "xfs", MountFlags: []string{"secret"}},
	}
	for _, edit := range edits {
		edit(c)
	}
	endpointstest.Must(s, storage.ClassPut, &storage.ClassPutRequest{Class: c})
}

func TestClasses_AreShownWithoutTheirMountFlags(t *testing.T) {
	s := endpointstest.New(t)
	putClass(s)
	putClass(s, func(c *storage.VolumeClass) { c.Name = "archive" })
	list := endpointstest.Must(s, storage.ClassList, &structs.QueryRequest{})
	require.Len(t, list.Classes, 2)
	require.Equal(t, "archive", list.Classes[0].Name)
	list = endpointstest.Must(s, storage.ClassList,
		&structs.QueryRequest{QueryOptions: structs.QueryOptions{Prefix: "f"}})
	require.Len(t, list.Classes, 1)

	got := endpointstest.Must(s, storage.ClassGet, &storage.ClassGetRequest{Name: "fast"}).Class
	require.Equal(t, []string{structs.RedactedFlag}, got.MountOptions.MountFlags)
	endpointstest.Must(s, storage.ClassPut, &storage.ClassPutRequest{Class: got})
	endpointstest.Must(s, storage.ClassDelete, &storage.ClassDeleteRequest{Name: "fast"})
	endpointstest.Rejected(s, structs.KindNotFound, storage.ClassGet, &storage.ClassGetRequest{Name: "fast"})
}

// requested is a volume without the values of its class.
func requested(id, className string) *structs.CSIVolume {
	v := endpointstest.Volume(id)
	v.PluginID = ""
	v.Class = className
	v.Secrets = nil
	v.MountOptions = nil
	return v
}

func TestVolumeCreate_TakesTheValuesOfItsClass(t *testing.T) {
	s := endpointstest.New(t)
	s.AddRootKey("k1")
	s.AddNode("n1", "a")
	putVariable(s, "nomad/volumes/default/v", "password", "hunter2")
	putClass(s, func(c *storage.VolumeClass) {
		c.Default = true
		c.SecretsFrom = "nomad/volumes/{namespace}/{id}"
	})
	made := 0
	stop := runLeader(s, func(v *structs.CSIVolume) *structs.CSIVolumeOutcome {
		made++
		return created(v)
	})
	defer stop()

	for _, name := range []string{"", "fast"} {
		got := endpointstest.Must(s, structs.CSIVolumeCreate,
			endpointstest.RegisterRequest(requested("v", name))).Volumes[0]
		require.Equal(t, "fast", got.Class)
		require.Equal(t, "pl", got.PluginID)
		require.Equal(t, map[string]string{"type": "image"}, got.Parameters)
		require.Equal(t, "nomad/volumes/default/v", got.SecretsFrom)
		require.Equal(t, []string{structs.RedactedFlag}, got.MountOptions.MountFlags)
	}
	require.Equal(t, []string{"secret"}, volumeRow(s, "v").MountOptions.MountFlags)

	// A later change of the class does not reach the volume, also not by its own file.
	putClass(s, func(c *storage.VolumeClass) { c.MountOptions = nil })
	endpointstest.Must(s, structs.CSIVolumeCreate, endpointstest.RegisterRequest(requested("v", "fast")))
	require.Equal(t, "xfs", volumeRow(s, "v").MountOptions.FSType)
	require.Equal(t, 1, made)

	list := endpointstest.Must(s, structs.CSIVolumeList, &structs.CSIVolumeListRequest{Class: "fast"})
	require.Len(t, list.Volumes, 1)
	require.Equal(t, "fast", list.Volumes[0].Class)
	require.Empty(t, endpointstest.Must(s, structs.CSIVolumeList,
		&structs.CSIVolumeListRequest{Class: "slow"}).Volumes)
	endpointstest.Rejected(s, structs.KindPrecondition, storage.ClassDelete,
		&storage.ClassDeleteRequest{Name: "fast"})
}

func TestVolumeCreate_NeedsAPluginOrAClass(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	err := endpointstest.Rejected(s, structs.KindInvalid, structs.CSIVolumeCreate,
		endpointstest.RegisterRequest(requested("v", "")))
	require.ErrorContains(t, err, `volume "v": plugin_id is required, or class`)
	endpointstest.Rejected(s, structs.KindInvalid, structs.CSIVolumeCreate,
		endpointstest.RegisterRequest(requested("v", "fast")))
	putClass(s)
	v := requested("v", "fast")
	v.Parameters = map[string]string{"type": "other"}
	err = endpointstest.Rejected(s, structs.KindInvalid, structs.CSIVolumeCreate,
		endpointstest.RegisterRequest(v))
	require.ErrorContains(t, err, `another value for "type"`)
	require.Nil(t, volumeRow(s, "v"))
}

func TestVolumeRegister_TakesTheValuesOfItsClass(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	putClass(s, func(c *storage.VolumeClass) {
		c.Default = true
		c.AllowedTopologies = []*structs.CSITopology{{Segments: map[string]string{"zone": "b"}}}
	})
	v := requested("v", "fast")
	v.ExternalID = "ext-v"
	got := endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(v)).Volumes[0]
	require.Equal(t, "pl", got.PluginID)
	require.Empty(t, got.Topologies, "the class does not say where a volume is")

	v = requested("w", "")
	v.ExternalID = "ext-w"
	endpointstest.Rejected(s, structs.KindInvalid, structs.CSIVolumeRegister, endpointstest.RegisterRequest(v))
}

// The operator who makes a class decides on its variable, and the creator of a volume needs no right on it.
func TestVolumeCreate_NeedsNoRightOnTheVariableOfItsClass(t *testing.T) {
	s := endpointstest.New(t)
	s.AddRootKey("k1")
	s.AddNode("n1", "a")
	putVariable(s, "nomad/volumes/default/v", "password", "hunter2")
	putClass(s, func(c *storage.VolumeClass) { c.SecretsFrom = "nomad/volumes/{namespace}/{id}" })
	defer runLeader(s, created)()
	token := guard(s, "namespace \"default\" {\n  capabilities = [\"csi-write-volume\"]\n}\n")

	req := endpointstest.RegisterRequest(requested("v", "fast"))
	req.AuthToken = token
	got := endpointstest.Must(s, structs.CSIVolumeCreate, req).Volumes[0]
	require.Equal(t, "nomad/volumes/default/v", got.SecretsFrom)

	other := requested("w", "")
	other.PluginID = endpointstest.Volume("w").PluginID
	other.SecretsFrom = "nomad/volumes/default/v"
	req = endpointstest.RegisterRequest(other)
	req.AuthToken = token
	endpointstest.Rejected(s, structs.KindDenied, structs.CSIVolumeCreate, req)
}
