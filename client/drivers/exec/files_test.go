package exec_test

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"berth/client/drivers/driver"
	"berth/test/kit"
)

// Set-uid bits have no effect in a task, and no device node opens outside its own /dev.
func TestSandbox_MountsEverythingNosuidAndNodev(t *testing.T) {
	r := newFixture(t)
	vol := r.dir + "/vol"
	r.mountTmpfs(vol) // a volume with a file system; on the host the mount has neither option
	r.mountTmpfs(vol + "/sub")
	kit.MakeDevice(t, vol+"/sub/zero", unix.S_IFCHR|0o666, unix.Mkdev(1, 5))
	cfg := r.task("t", `
		grep -c . /proc/self/mountinfo >/dev/null && grep -vw nosuid /proc/self/mountinfo
		grep -vw nodev /proc/self/mountinfo | cut -d' ' -f5 | grep -v '^/dev' | grep -v '^/proc/'
		for d in /local /alloc /secrets /tmp /vol /vol/sub /srv; do
			awk -v d=$d '$5 == d && $6 ~ /nosuid/ && $6 ~ /nodev/ {print d}' /proc/self/mountinfo
		done
		head -c 1 /vol/sub/zero 2>&1 | grep -c denied`)
	cfg.Mounts = []driver.Mount{
		{HostPath: vol, TaskPath: "/vol"},
		{HostPath: vol, TaskPath: "/srv", ReadOnly: true, Propagation: "host-to-task"},
	}
	if res, out := r.run(cfg); out != "/local\n/alloc\n/secrets\n/tmp\n/vol\n/vol/sub\n/srv\n1\n" {
		t.Fatalf("got the end %+v and the output %q", res, out)
	}
}

func TestSandbox_MasksKernelInterfaces(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `
		for f in /proc/sysrq-trigger /proc/sys/kernel/core_pattern /proc/irq/default_smp_affinity; do
			(: >> $f) 2>/dev/null && echo opened $f
		done
		cat /proc/keys /proc/kcore /proc/timer_list 2>/dev/null | head -c 9; ls -A /sys/firmware | wc -l
		find /sys /proc/sys -xdev -type f -writable \
			-exec sh -c '(: >> "$1") 2>/dev/null && echo opened $1' x {} \; -quit 2>/dev/null # devices come and go
		echo end`)
	if res, out := r.run(cfg); out != "0\nend\n" {
		t.Fatalf("got the end %+v and the output %q", res, out)
	}
}

func TestSharedDirectory_ServesTasksOfDifferentUsers(t *testing.T) {
	r := newFixture(t)
	data := r.dir + "/shared/data"
	first := r.task("first", `umask 022; echo from $(id -u) > /alloc/data/file && echo wrote`)
	if err := os.MkdirAll(data, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(data, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(r.dir, 0o700); err != nil { // as the runner closes the allocation's directory
		t.Fatal(err)
	}
	first.User = "nobody"
	if res, out := r.run(first); out != "wrote\n" {
		t.Fatalf("the first task: got the end %+v and the output %q", res, out)
	}
	second := r.task("second", `
		cat /alloc/data/file; echo new > /alloc/data/mine && touch /local/x /secrets/x /tmp/x && echo wrote`)
	second.User = "daemon"
	if res, out := r.run(second); out != "from 65534\nwrote\n" {
		t.Fatalf("the second task: got the end %+v and the output %q", res, out)
	}
}

// The user of a task owns its directories at each start. Files in them keep their owners. A task of root that
// becomes another user can write to /tmp. It can write to local only after it has given that user the right.
func TestDirectories_AreTheUsersOfTheTask(t *testing.T) {
	r := newFixture(t)
	const list = `stat -c '%n %u:%g %a' /local /secrets /tmp /local/*; `
	cfg := r.task("t", list+`touch /local/file`)
	for _, dir := range []string{cfg.Dirs.Local, cfg.Dirs.Secrets} {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	roots := cfg.Dirs.Local + "/roots"
	others := cfg.Dirs.Local + "/others"
	err := errors.Join(
		os.WriteFile(roots, nil, 0o600),
		os.WriteFile(others, nil, 0o600),
		os.Chown(others, 7, 7))
	if err != nil {
		t.Fatal(err)
	}
	cfg.User = "4321:1234"
	dirs := func(user, more string) string {
		return "/local " + user + " 755\n/secrets " + user + " 700\n/tmp " + user + " 1777\n" + more +
			"/local/others 7:7 600\n/local/roots 0:0 600\n"
	}
	want := dirs("4321:1234", "")
	if res, out := r.run(cfg); out != want || !res.Successful() {
		t.Fatalf("got the end %+v and the output %q, want %q", res, out, want)
	}
	r.destroy(cfg)
	cfg = r.task("t", list+`
		daemon() { setpriv --reuid 1 --clear-groups "$@" 2>/dev/null; }
		daemon touch /tmp/x && echo wrote tmp
		daemon touch /local/x && echo wrote local
		daemon ls /secrets && echo listed
		chown 1 /local && daemon touch /local/x && echo let`)
	want += dirs("0:0", "/local/file 4321:1234 644\n") + "wrote tmp\nlet\n" // the log continues
	if res, out := r.run(cfg); out != want || !res.Successful() {
		t.Fatalf("got the end %+v and the output %q, want %q", res, out, want)
	}
}
