package exec_test

import (
	"testing"

	"berth/client/drivers/driver"
	"berth/structs"
)

// A task opens its devices with their permissions, and no other device of the host. Each start has the same:
// the agent makes the configuration again, as its hooks do.
func TestDevices_HaveTheirPermissions(t *testing.T) {
	r := newFixture(t)
	script := `
		for d in /dev/fuse /dev/control /dev/loop-control; do
			test -c $d || continue
			(exec 3<$d) 2>/dev/null && echo "read $d"
			(exec 3>$d) 2>/dev/null && echo "write $d"
		done
		echo "$VISIBLE"`
	want := "read /dev/fuse\nread /dev/control\nwrite /dev/control\n/dev/fuse\n"
	for name, next := range map[string]*fixture{"first": r, "next": r.nextAgent()} {
		cfg := r.task(name, script)
		cfg.Env = map[string]string{"VISIBLE": "/dev/fuse"}
		cfg.Mounts = []driver.Mount{
			{HostPath: "/dev/fuse", TaskPath: "/dev/fuse", Device: true, Permissions: "r"},
			{HostPath: "/dev/loop-control", TaskPath: "/dev/control", Device: true, Permissions: "rw"},
		}
		if res, out := next.run(cfg); out != want {
			t.Errorf("got the end %+v and the output %q, want %q", res, out, want)
		}
	}
}

func TestDevices_ThatAreNoneFailTheStart(t *testing.T) {
	r := newFixture(t)
	for path, permissions := range map[string]string{
		"/dev/not-there": "rw",
		"/etc/passwd":    "rw",
		"/dev/null":      "x",
	} {
		cfg := r.task("t", "true")
		cfg.Mounts = []driver.Mount{{HostPath: path, TaskPath: "/dev/x", Device: true, Permissions: permissions}}
		if _, err := r.Start(r.ctx(), cfg); !structs.IsKind(err, structs.KindPrecondition) {
			t.Errorf("%s with %s: got %v, want precondition", path, permissions, err)
		}
		r.checkClean(cfg)
	}
}
