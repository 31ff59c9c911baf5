package interop

import (
	"fmt"
	"slices"
	"strings"

	public "github.com/hashicorp/nomad/api"
)

// newVolume returns a volume that the plugin of the fixture can make.
func (f *callFixture) newVolume(id string) *public.CSIVolume {
	return &public.CSIVolume{
		ID:                   id,
		Name:                 id,
		PluginID:             f.plugin,
		RequestedCapacityMin: 1 << 20,
		RequestedCapacityMax: 8 << 20,
		RequestedCapabilities: []*public.CSIVolumeCapability{{
			AccessMode:     public.CSIVolumeAccessModeSingleNodeWriter,
			AttachmentMode: public.CSIVolumeAttachmentModeFilesystem,
		}},
	}
}

// volumeCalls make a volume, use it and delete it.
var volumeCalls = []callRow{
	{"CSIVolumes.Create", func(f *callFixture) error {
		made, _, err := f.c.CSIVolumes().Create(f.newVolume(f.volume), nil)
		return check(err, func() bool { return len(made) == 1 && made[0].ExternalID != "" }, made)
	}},
	{"CSIVolumes.CreateOpts", func(f *callFixture) error {
		req := &public.CSIVolumeCreateRequest{Volumes: []*public.CSIVolume{f.newVolume(f.volume + "-2")}}
		resp, _, err := f.c.CSIVolumes().CreateOpts(req, nil)
		return check(err, func() bool { return len(resp.Volumes) == 1 && resp.Volumes[0].Capacity > 0 }, resp)
	}},
	{"HostVolumes.Create", func(f *callFixture) error {
		resp, _, err := f.c.HostVolumes().Create(&public.HostVolumeCreateRequest{Volume: &public.HostVolume{
			Name:     f.volume,
			PluginID: f.plugin,
			RequestedCapabilities: []*public.HostVolumeCapability{{
				AccessMode:     public.HostVolumeAccessModeSingleNodeWriter,
				AttachmentMode: public.HostVolumeAttachmentModeFilesystem,
			}},
		}}, nil)
		if err == nil {
			f.hostVolume = resp.Volume.ID
		}
		return check(err, func() bool { return resp.Volume.State == public.HostVolumeStateReady }, resp)
	}},
	{"HostVolumes.Get", func(f *callFixture) error {
		v, _, err := f.c.HostVolumes().Get(f.hostVolume, nil)
		return check(err, func() bool { return v.Name == f.volume && v.PluginID == f.plugin }, v)
	}},
	{"HostVolumes.List", func(f *callFixture) error {
		volumes, _, err := f.c.HostVolumes().List(&public.HostVolumeListRequest{}, nil)
		return check(err, func() bool { return len(volumes) == 1 && volumes[0].ID == f.hostVolume }, volumes)
	}},
	{"TaskGroupHostVolumeClaims.List", func(f *callFixture) error {
		job := quickJob("keeps-volume", "sleep 600")
		volume, destination := "kept", "/kept"
		job.TaskGroups[0].Volumes = map[string]*public.VolumeRequest{volume: {
			Name:   volume,
			Type:   "host",
			Source: f.volume,
			Sticky: true,
		}}
		mount := &public.VolumeMount{Volume: &volume, Destination: &destination}
		job.TaskGroups[0].Tasks[0].VolumeMounts = []*public.VolumeMount{mount}
		alloc := runJob(f.t, f.c, job)
		claims, err := f.hostClaims()
		if err != nil || len(claims) != 1 {
			return check(err, func() bool { return false }, claims)
		}
		c := claims[0]
		all, _, err := f.c.TaskGroupHostVolumeClaims().List(nil, nil)
		return check(err, func() bool {
			return c.VolumeID == f.hostVolume && c.VolumeName == f.volume && c.AllocID == alloc.ID &&
				c.JobID == *job.ID && c.TaskGroupName == *job.TaskGroups[0].Name && c.CreateIndex > 0 &&
				len(all) == 1 && all[0].ID == c.ID
		}, all)
	}},
	{"TaskGroupHostVolumeClaims.Delete", func(f *callFixture) error {
		claims, err := f.hostClaims()
		if err != nil {
			return err
		}
		_, err = f.c.TaskGroupHostVolumeClaims().Delete(claims[0].ID, nil)
		if err != nil {
			return err
		}
		claims, err = f.hostClaims()
		if err != nil || len(claims) > 0 {
			return check(err, func() bool { return false }, claims)
		}
		_, _, err = f.c.Jobs().Deregister("keeps-volume", true, nil)
		f.await("the host volume is free", func() (bool, error) {
			v, _, err := f.c.HostVolumes().Get(f.hostVolume, nil)
			return err == nil && len(v.Allocations) == 0, err
		})
		return err
	}},
	{"HostVolumes.Delete", func(f *callFixture) error {
		_, _, err := f.c.HostVolumes().Delete(&public.HostVolumeDeleteRequest{ID: f.hostVolume}, nil)
		return err
	}},
	{"CSIVolumes.Info", func(f *callFixture) error {
		v, _, err := f.c.CSIVolumes().Info(f.volume, nil)
		return check(err, func() bool { return v.PluginID == f.plugin && v.Capacity > 0 && v.Schedulable }, v)
	}},
	{"CSIVolumes.List", func(f *callFixture) error {
		volumes, _, err := f.c.CSIVolumes().List(&public.QueryOptions{Prefix: f.volume})
		return check(err, func() bool { return len(volumes) == 2 && volumes[1].ID == f.volume }, volumes)
	}},
	{"CSIVolumes.PluginList", func(f *callFixture) error {
		volumes, _, err := f.c.CSIVolumes().PluginList(f.plugin)
		return check(err, func() bool { return len(volumes) == 2 }, volumes)
	}},
	{"CSIVolumes.ListExternal", func(f *callFixture) error {
		resp, _, err := f.c.CSIVolumes().ListExternal(f.plugin, &public.QueryOptions{PerPage: 5})
		return check(err, func() bool { return len(resp.Volumes) >= 2 && resp.Volumes[0].ExternalID != "" }, resp)
	}},
	{"CSIVolumes.Register", func(f *callFixture) error {
		v, _, err := f.c.CSIVolumes().Info(f.volume, nil)
		if err != nil {
			return err
		}
		v.RequestedCapacityMin = 2 << 20
		return checkIndex(f.c.CSIVolumes().Register(v, nil))
	}},
	{"CSIVolumes.RegisterOpts", func(f *callFixture) error {
		v, _, err := f.c.CSIVolumes().Info(f.volume, nil)
		if err != nil {
			return err
		}
		req := &public.CSIVolumeRegisterRequest{Volumes: []*public.CSIVolume{v}}
		resp, _, err := f.c.CSIVolumes().RegisterOpts(req, nil)
		return check(err, func() bool { return resp.Volumes[0].RequestedCapacityMin == 2<<20 }, resp)
	}},
	{"Nodes.CSIVolumes", func(f *callFixture) error {
		job := quickJob("uses-volume", "echo data > /data/file; sleep 600")
		volume, destination := "data", "/data"
		job.TaskGroups[0].Volumes = map[string]*public.VolumeRequest{"data": {
			Name:           "data",
			Type:           "csi",
			Source:         f.volume,
			AccessMode:     "single-node-writer",
			AttachmentMode: "file-system",
		}}
		mount := &public.VolumeMount{Volume: &volume, Destination: &destination}
		job.TaskGroups[0].Tasks[0].VolumeMounts = []*public.VolumeMount{mount}
		runJob(f.t, f.c, job)
		volumes, err := f.c.Nodes().CSIVolumes(f.nodeID, nil)
		return check(err, func() bool { return len(volumes) == 1 && volumes[0].ID == f.volume }, volumes)
	}},
	{"CSIVolumes.Detach", func(f *callFixture) error {
		_, _, err := f.c.Jobs().Deregister("uses-volume", false, nil)
		if err != nil {
			return err
		}
		f.await("the volume is free", func() (bool, error) {
			v, _, err := f.c.CSIVolumes().Info(f.volume, nil)
			return err == nil && len(v.WriteAllocs) == 0, err
		})
		return f.retried(func() error { return f.c.CSIVolumes().Detach(f.volume, f.nodeID, nil) })
	}},
	{"CSIVolumes.CreateSnapshot", func(f *callFixture) error {
		want := &public.CSISnapshot{SourceVolumeID: f.volume, Name: f.volume + "-snapshot"}
		resp, _, err := f.c.CSIVolumes().CreateSnapshot(want, nil)
		return check(err, func() bool { return len(resp.Snapshots) == 1 && f.isSnapshot(resp.Snapshots[0]) }, resp)
	}},
	{"CSIVolumes.ListSnapshots", func(f *callFixture) error {
		resp, _, err := f.c.CSIVolumes().ListSnapshots(f.plugin, "", &public.QueryOptions{})
		return check(err, func() bool { return slices.ContainsFunc(resp.Snapshots, f.isSnapshot) }, resp)
	}},
	{"CSIVolumes.ListSnapshotsOpts", func(f *callFixture) error {
		resp, _, err := f.c.CSIVolumes().ListSnapshotsOpts(&public.CSISnapshotListRequest{PluginID: f.plugin})
		return check(err, func() bool { return slices.ContainsFunc(resp.Snapshots, f.isSnapshot) }, resp)
	}},
	{"CSIVolumes.DeleteSnapshot", func(f *callFixture) error {
		resp, _, err := f.c.CSIVolumes().ListSnapshots(f.plugin, "", &public.QueryOptions{})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(resp.Snapshots, f.isSnapshot)
		err = f.c.CSIVolumes().DeleteSnapshot(resp.Snapshots[i], nil)
		if err != nil {
			return err
		}
		resp, _, err = f.c.CSIVolumes().ListSnapshots(f.plugin, "", &public.QueryOptions{})
		return check(err, func() bool { return !slices.ContainsFunc(resp.Snapshots, f.isSnapshot) }, resp)
	}},
	{"CSIVolumes.Deregister", func(f *callFixture) error {
		v, _, err := f.c.CSIVolumes().Info(f.volume+"-2", nil)
		if err != nil {
			return err
		}
		err = f.c.CSIVolumes().Deregister(v.ID, false, nil)
		if err != nil {
			return err
		}
		_, _, err = f.c.CSIVolumes().Info(v.ID, nil)
		if err == nil || !strings.Contains(err.Error(), "404") {
			return fmt.Errorf("a deregistered volume: %w", err)
		}
		again := f.newVolume(v.ID)
		again.ExternalID = v.ExternalID
		return checkIndex(f.c.CSIVolumes().Register(again, nil)) // its storage is deleted below
	}},
	{"CSIVolumes.Delete", func(f *callFixture) error {
		err := f.c.CSIVolumes().Delete(f.volume+"-2", nil)
		f.awaitGone(f.volume + "-2")
		return err
	}},
	{"CSIVolumes.DeleteOpts", func(f *callFixture) error {
		err := f.c.CSIVolumes().DeleteOpts(&public.CSIVolumeDeleteRequest{ExternalVolumeID: f.volume}, nil)
		f.awaitGone(f.volume)
		return err
	}},
}

// isSnapshot reports whether a snapshot is that of the volume, and ready.
func (f *callFixture) isSnapshot(s *public.CSISnapshot) bool {
	return s.ID != "" && s.Name == f.volume+"-snapshot" && s.PluginID == f.plugin && s.IsReady &&
		s.SizeBytes > 0 && s.CreateTime > 0
}

func (f *callFixture) awaitGone(volume string) {
	f.t.Helper()
	f.await(volume+" is gone", func() (bool, error) {
		_, _, err := f.c.CSIVolumes().Info(volume, nil)
		return err != nil && strings.Contains(err.Error(), "404"), err
	})
}

// hostClaims lists the claims of the job that keeps its host volume.
func (f *callFixture) hostClaims() ([]*public.TaskGroupHostVolumeClaim, error) {
	req := &public.TaskGroupHostVolumeClaimsListRequest{JobID: "keeps-volume", VolumeName: f.volume}
	claims, _, err := f.c.TaskGroupHostVolumeClaims().List(req, nil)
	return claims, err
}
