package upkeep_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/client/csi/helper"
	"berth/client/csi/mounts"
	"berth/client/csi/registry"
	"berth/client/csi/upkeep"
	"berth/client/csi/volumes"
	"berth/client/store"
	"berth/csi/csitest"
	"berth/structs"
	"berth/test/kit"
)

// BenchmarkPoll measures the CPU time of an interval of one minute with mounted volumes, as a part of a core
// for each 1,000 of them: the looks at the records and the mount table, and a measurement of each volume, by
// a plugin that reports it or by processes. The time of the fake plugin is a part of it. BERTH_VOLUMES gives
// another number of volumes than 1,000.
func BenchmarkPoll(b *testing.B) {
	count, err := strconv.Atoi(cmp.Or(os.Getenv("BERTH_VOLUMES"), "1000"))
	kit.Must(b, err)
	for name, caps := range map[string][]string{"plugin": {"GET_VOLUME_STATS"}, "statfs": {}} {
		b.Run(name, func(b *testing.B) {
			m := mountMany(b, count, caps)
			poller := upkeep.NewPoller(upkeep.PollerConfig{
				NodeID:   "n1",
				List:     upkeep.PolledVolumes(m),
				Helpers:  helper.New([]string{cmp.Or(os.Getenv("BERTH_EXECUTOR"), os.Args[0])}),
				Interval: time.Minute,
			})
			before := cpuTime(b)
			for b.Loop() {
				upkeep.PollOnce(b.Context(), poller)
			}
			used := cpuTime(b) - before
			measured := 0
			for _, u := range poller.Of(nil) {
				if u.Error == "" && u.Time != 0 {
					measured++
				}
			}
			if measured != count {
				b.Fatalf("%d volumes are measured", measured)
			}
			part := used.Seconds() / float64(b.N) / time.Minute.Seconds()
			b.ReportMetric(part*100/float64(count)*1000, "core-%/1000")
		})
	}
}

// mountMany returns the manager of a node with many volumes of a plugin.
func mountMany(b *testing.B, count int, caps []string) *volumes.Manager {
	b.Helper()
	if os.Geteuid() != 0 {
		kit.SkipLacking(b, "root: it mounts")
	}
	dir, err := os.MkdirTemp("/tmp", "b")
	kit.Must(b, err)
	dir, err = mounts.Resolve(dir)
	kit.Must(b, err)
	b.Cleanup(func() {
		if table, err := mounts.Read(); err == nil {
			for _, m := range slices.Backward(table.Below(dir)) {
				_ = unix.Unmount(m, unix.MNT_DETACH)
			}
		}
		_ = os.RemoveAll(dir)
	})

	const scope = "/local/csi"
	root := filepath.Join(dir, "v")
	onHost := func(path string) string { return filepath.Join(root, strings.TrimPrefix(path, scope+"/")) }
	plugin := csitest.Start(b, csitest.Config{Node: true, Mounts: true, NodeCaps: caps, HostPath: onHost})
	plugin.Script("NodePublishVolume", func(_ context.Context, req any) (any, error) {
		target := onHost(req.(*spec.NodePublishVolumeRequest).GetTargetPath())
		err := os.Mkdir(target, 0o700)
		if err == nil {
			err = unix.Mount("none", target, "tmpfs", 0, "size=1m")
		}
		return &spec.NodePublishVolumeResponse{}, err
	})
	plugin.Answer("NodeGetVolumeStats", &spec.NodeGetVolumeStatsResponse{Usage: []*spec.VolumeUsage{
		{Unit: spec.VolumeUsage_BYTES, Total: 100, Used: 1, Available: 99},
	}})

	db, err := store.Open(dir)
	kit.Must(b, err)
	instances := registry.New(db, hclog.NewNullLogger())
	m := volumes.New(volumes.Config{DB: db, Registry: instances, Root: root, NodeID: "n1"})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { m.Run(ctx) })
	b.Cleanup(func() {
		cancel()
		wg.Wait()
		_ = db.Close()
	})
	kit.Must(b, instances.Register(&registry.Instance{
		Kind:            structs.CSIKindNode,
		ID:              "disk",
		AllocID:         "plugin",
		SocketPath:      plugin.Socket(),
		HostMountPath:   m.Volumes().Root(),
		PluginMountPath: scope,
	}))
	for i := range count {
		_, err := m.Volumes().Up(ctx, &volumes.Use{
			VolumeKey:      volumes.VolumeKey{Namespace: "default", ID: fmt.Sprint("v", i)},
			AllocID:        fmt.Sprint("a", i),
			PluginID:       "disk",
			ExternalID:     fmt.Sprint("x", i),
			AccessMode:     structs.CSISingleNodeWriter,
			AttachmentMode: structs.CSIFileSystem,
		}, nil)
		kit.Must(b, err)
	}
	return m
}

// cpuTime returns the CPU time of this process and of its children that have ended.
func cpuTime(b *testing.B) (used time.Duration) {
	b.Helper()
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		kit.Must(b, unix.Getrusage(who, &u))
		used += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return used
}
