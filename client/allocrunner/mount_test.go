package allocrunner

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"berth/client/hooks"
	"berth/structs"
	"berth/test/kit"
)

// A file system with an error of its disk is read-only until it is mounted again. A restart of the task would
// not help: the allocation fails, so that the next one mounts it.
func TestVolumeMounts_EndTheAllocationOfAReadOnlyFileSystem(t *testing.T) {
	if os.Getuid() != 0 {
		kit.SkipLacking(t, "root to mount")
	}
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		a.allocs[0].setup = func(env *hooks.AllocEnv) {
			env.SetVolume("data", hooks.VolumeMount{HostPath: dir, Writable: true})
		}
		alloc := testAlloc("web")
		alloc.Job.TaskGroups[0].Tasks[0].VolumeMounts = []*structs.VolumeMount{{Volume: "data",
			Destination: "/data"}}
		r := a.new(alloc)
		synctest.Wait()
		err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
		if err != nil {
			t.Fatal(err)
		}
		fx.machine.Exit("alloc1/web", exitResult(1))
		<-r.Unwound()
		s := a.last().TaskStates["web"]
		if n := fx.machine.Task("alloc1/web").Starts; n != 1 || !s.Failed ||
			!strings.Contains(eventMessages(s), "has turned read-only") {
			t.Errorf("%d starts: %+v", n, eventMessages(s))
		}
	})
}

func eventMessages(s *structs.TaskState) (text string) {
	for _, e := range s.Events {
		text += e.Message + "\n"
	}
	return text
}

// Only the node knows the value of a placeholder in a destination.
func TestVolumeMounts_RejectTheRootOfTheTask(t *testing.T) {
	for _, value := range []string{"", "..", "/.", "x/../y"} {
		inVirtualTime(t, func(t *testing.T) {
			fx := newFixture(t)
			a := fx.agent()
			defer a.stop()
			a.allocs[0].setup = func(env *hooks.AllocEnv) {
				env.SetVolume("data", hooks.VolumeMount{HostPath: "/host/data"})
			}
			alloc := testAlloc("web")
			task := alloc.Job.TaskGroups[0].Tasks[0]
			task.Meta = map[string]string{"at": value}
			task.VolumeMounts = []*structs.VolumeMount{{Volume: "data", Destination: "/${NOMAD_META_at}"}}
			r := a.new(alloc)
			<-r.Unwound()
			s := a.last().TaskStates["web"]
			e := s.Events[len(s.Events)-1]
			if !s.Failed || !strings.Contains(e.Message, "volume_mount data: destination") {
				t.Errorf("%q: %+v", value, e)
			}
		})
	}
}
