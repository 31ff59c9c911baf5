package packages

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"berth/internal/version"
	"berth/test/kit"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == asMachine {
		err := runMachine(os.Args[2])
		if err != nil {
			_, _ = os.Stdout.WriteString(err.Error() + "\n")
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// tools returns the assignments of the Makefile that pin the programs of a release. It builds these, so
// that a release needs no network.
func tools(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../Makefile")
	kit.Must(t, err)
	pinned := regexp.MustCompile(`(?m)^(NFPM|SBOM) *:= (\S+)$`)
	for _, m := range pinned.FindAllStringSubmatch(string(text), -1) {
		output(t, "../../scripts/tool.sh", m[2])
		all = append(all, m[1]+"="+m[2])
	}
	return all
}

// release makes a release of the built program in a new directory below dir, without the network.
func release(t *testing.T, dir, name, revision string) (dist string) {
	t.Helper()
	dist = filepath.Join(dir, name)
	cmd := exec.Command("../../scripts/release.sh")
	cmd.Env = append(os.Environ(), append(tools(t),
		"DIST="+dist,
		"RELEASE="+revision,
		"PROGRAM="+os.Getenv("BERTH_BIN"),
		"SOURCE_DATE_EPOCH=1700000000",
		"GOPROXY=off",
	)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("release.sh: %v: %s", err, out)
	}
	return dist
}

// deb returns the package of Debian in a release.
func deb(dist, revision string) string {
	return filepath.Join(dist, "berth_"+version.Version+"-"+revision+"_"+runtime.GOARCH+".deb")
}

// program returns a program in a release.
func program(dist, name string) string {
	return filepath.Join(dist, name+"-"+version.Version+"-linux-"+runtime.GOARCH)
}

// prepare returns a new directory, outside of that of Go's tests, whose long names a socket cannot have.
func prepare(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: it makes namespaces and mounts")
	}
	if os.Getenv("BERTH_BIN") == "" {
		kit.SkipLacking(t, "a built binary: BERTH_BIN")
	}
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		kit.SkipLacking(t, "the programs of Debian's packages")
	}
	if _, err := os.Stat(systemd); err != nil {
		kit.SkipLacking(t, "systemd")
	}
	dir, err := os.MkdirTemp("/tmp", "packages")
	kit.Must(t, err)
	t.Cleanup(func() {
		err := os.RemoveAll(dir)
		if err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestRelease makes packages of two revisions, and the first one twice. All have the same built program:
// scripts/reproduce.sh compares two builds of it.
func TestRelease(t *testing.T) {
	dir := prepare(t)
	first := release(t, dir, "first", "1")
	again := release(t, dir, "again", "1")
	next := release(t, dir, "next", "2")
	t.Run("is the same twice", func(t *testing.T) { compare(t, first, again) })
	t.Run("is within its bound", func(t *testing.T) { checkSize(t, first) })
	t.Run("has the pages that it names", func(t *testing.T) { checkPages(t, first) })
	t.Run("has the same files for RPM", func(t *testing.T) { checkRPM(t, first) })
	t.Run("has an image that serves", func(t *testing.T) { runImage(t, first) })
	t.Run("installs, upgrades and leaves", func(t *testing.T) { install(t, dir, first, next) })
}

// compare compares two releases of one commit.
func compare(t *testing.T, first, later string) {
	sums, err := os.ReadFile(filepath.Join(first, "SHA256SUMS"))
	kit.Must(t, err)
	again, err := os.ReadFile(filepath.Join(later, "SHA256SUMS"))
	kit.Must(t, err)
	if string(sums) != string(again) {
		t.Errorf("two releases of one commit differ:\n%s\n%s", sums, again)
	}
	if got := strings.Count(string(sums), "\n"); got != 7 {
		t.Errorf("the release has %d files, want deb, rpm, image, two programs and their bills of materials:\n%s",
			got, sums)
	}
	for name, library := range map[string]string{
		"berth":         "github.com/hashicorp/raft",
		"berth-convert": "github.com/compose-spec/compose-go/v2",
	} {
		list, err := os.ReadFile(program(first, name) + ".cdx.json")
		if err != nil || !strings.Contains(string(list), `"name": "`+library+`"`) {
			t.Errorf("the bill of materials of %s lacks a library: %v", name, err)
		}
		if strings.Contains(string(list), "(devel)") {
			t.Errorf("the bill of materials of %s has a part without a version:\n%s", name, list)
		}
	}
}

// mostBytes is the largest size of the program. It is there to notice a mistake.
const mostBytes = 80_000_000

// checkSize keeps the program from growing unseen.
func checkSize(t *testing.T, dist string) {
	info, err := os.Stat(program(dist, "berth"))
	kit.Must(t, err)
	if got := info.Size(); got > mostBytes {
		t.Errorf("the program has %d bytes, and its bound is %d. `go tool nm -size -sort size` of "+
			"a build without -s shows what is large. docs/adr/0106 and 0107 tell what makes the linker keep "+
			"code, such as a template of text/template. Make the program smaller, or leave the new library out", got, mostBytes)
	}
}

// checkRPM compares the package of RPM with that of Debian.
func checkRPM(t *testing.T, dist string) {
	t.Helper()
	if _, err := exec.LookPath("rpm"); err != nil {
		kit.SkipLacking(t, "the program rpm")
	}
	found := rpmOf(t, dist)
	head := output(t, "rpm", "-qp", "--qf", "%{NAME} %{VERSION} %{RELEASE} %{BUILDHOST}", found)
	if want := "berth " + version.Version + " 1 localhost"; head != want {
		t.Errorf("the head is %q, want %q", head, want)
	}
	if config := output(t, "rpm", "-qpc", found); config != "/etc/berth/berth.hcl\n/etc/default/berth\n" {
		t.Errorf("the configuration is %q", config)
	}

	files := map[string]bool{}
	for path := range strings.Lines(output(t, "rpm", "-qpl", found)) {
		path = strings.TrimSpace(path)
		files[strings.Replace(path, "zsh/site-functions", "zsh/vendor-completions", 1)] = true
	}
	for line := range strings.Lines(output(t, "dpkg-deb", "-c", deb(dist, "1"))) {
		fields := strings.Fields(line)
		path := strings.TrimPrefix(fields[len(fields)-1], ".")
		if strings.HasSuffix(path, "/") {
			continue
		}
		if !files[path] {
			t.Errorf("the package of RPM lacks %s", path)
		}
		delete(files, path)
	}
	left := slices.Sorted(maps.Keys(files))
	if want := []string{"/etc/berth", "/var/lib/berth"}; !slices.Equal(left, want) {
		t.Errorf("the package of RPM has more: %q, want the directories %q", left, want)
	}
}

func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).Output()
	if err != nil {
		t.Fatalf("%s %q: %v", program, args, err)
	}
	return string(out)
}

const examples = "/usr/share/doc/berth/examples/"

// install goes from an empty machine to one without berth, with a job whose task runs through the upgrade and
// the removal.
func install(t *testing.T, dir, firstDist, nextDist string) {
	t.Cleanup(func() { removeCgroups(t, filepath.Base(dir)) })
	m := newMachine(t, dir)
	inside := func(path string) string { return "/mnt" + strings.TrimPrefix(path, dir) }
	first := deb(firstDist, "1")
	next := deb(nextDist, "2")

	// The package starts nothing, and says how to.
	said := m.must("dpkg -i " + inside(first))
	expect(t, said, "systemctl enable --now berth")
	m.checkFiles()
	m.must("printf 'client {\\n drivers {\\n exec {\\n cgroup_parent = \"" + filepath.Base(dir) +
		"\"\\n}\\n}\\n}\\n' >/etc/berth/cgroup.hcl")
	m.must("berth config validate /etc/berth")
	m.must("berth doctor")

	m.must("systemctl enable --now berth")
	m.checkIdle()
	m.await("berth job run " + examples + "hostpath.hcl")
	m.must("berth volume create " + examples + "volume.hcl")
	m.must("berth job run " + examples + "counter.hcl")
	expect(t, m.must("berth doctor"), "healthy plugin instances: 2")
	m.must("grep ' /var/lib/berth/csi/v/' /proc/self/mounts")
	volume := m.volume()
	m.must("echo 'written before the upgrade' >" + volume + "/mine")
	m.await("test -s " + volume + "/lines")
	lines := m.must("cat " + volume + "/lines")

	// An upgrade keeps the configuration, restarts the agent and keeps the task.
	m.must("echo '# mine' >>/etc/berth/berth.hcl")
	former := m.must(mainPID)
	task := m.must(taskPID)
	m.must("dpkg -i " + inside(next))
	expect(t, m.must("dpkg-query -W berth"), version.Version+"-2")
	m.must("grep '# mine' /etc/berth/berth.hcl")
	m.await("systemctl is-active berth && test $(" + mainPID + ") != " + former)
	m.await("berth alloc status $(" + counterAlloc + ") | grep Restored")

	if now := m.must(taskPID); now != task {
		t.Errorf("the upgrade has replaced the process %s of the task by %s", task, now)
	}
	m.keeps(volume, lines)

	// A removal stops the agent, and keeps the data and the task. A purge keeps what is mounted.
	said = m.must("dpkg -r berth")
	expect(t, said, "their tasks run on without an agent")
	m.mustFail("test -e /usr/bin/berth")
	m.mustFail("pgrep -f '^/usr/bin/berth agent'")
	if now := m.must(taskPID); now != task {
		t.Errorf("the removal has replaced the process %s of the task by %s", task, now)
	}
	m.must("test -e /etc/berth/berth.hcl -a -e /var/lib/berth/client/client.db")
	said = m.mustFail("dpkg -P berth")
	expect(t, said, "these still use /var/lib/berth, so its data stay")
	expect(t, said, "/var/lib/berth/csi/v/")
	expect(t, said, "process ")
	m.must("test -e /var/lib/berth/client/client.db")
	m.must("grep '# mine' /etc/berth/berth.hcl.kept")

	// The next installation finds all again, and ends it in order.
	expect(t, m.must("dpkg -i "+inside(next)), "systemctl enable --now berth")
	m.must("mv /etc/berth/berth.hcl.kept /etc/berth/berth.hcl")
	m.must("systemctl enable --now berth")
	m.await("berth alloc status $(" + counterAlloc + ") | grep Restored")
	m.keeps(m.volume(), lines)
	m.stopDraining()
	m.keeps(m.volume(), lines)
	m.must("berth job stop -purge counter")
	m.await("berth volume delete counter")
	m.must("berth job stop -purge hostpath")
	said = m.must("dpkg -P berth")
	expect(t, said, "/etc/berth stays")
	m.mustFail("test -e /var/lib/berth")
	m.mustFail("grep /var/lib/berth /proc/self/mounts")
	m.mustFail("systemctl cat berth")
	m.joinByDefaults(inside(first))
	m.runServer(inside(first), inside(next))
	m.installRPM(inside(rpmOf(t, firstDist)), inside(rpmOf(t, nextDist)))
}

// taskPID prints the process of the task of the job counter.
const taskPID = `pgrep -o -f '^/bin/sh -c echo "found'`

// mainPID prints the process of the agent.
const mainPID = "systemctl show -P MainPID berth"

// counterAlloc prints the ID of the allocation of the job counter.
const counterAlloc = `berth alloc status -t '{{range .}}{{if eq .JobID "counter"}}{{.ID}}{{end}}{{end}}'`

// volume returns where the volume of the job counter is mounted for its task.
func (m *machine) volume() string {
	m.t.Helper()
	found := strings.Fields(m.must("awk '$2 ~ \"^/var/lib/berth/csi/v/\" {print $2}' /proc/self/mounts"))
	if len(found) == 0 {
		m.t.Fatal("no volume is mounted")
	}
	return found[len(found)-1]
}

// keeps checks that the volume has what was written before, and that its task still appends to its file.
func (m *machine) keeps(volume, lines string) {
	m.t.Helper()
	if got := m.must("cat " + volume + "/mine"); got != "written before the upgrade\n" {
		m.t.Errorf("the file on the volume has become %q", got)
	}
	now := m.must("cat " + volume + "/lines")
	if !strings.HasPrefix(now, lines) {
		m.t.Errorf("the lines of the task have become:\n%s\nwant these at the begin:\n%s", now, lines)
	}
	m.await(fmt.Sprintf("test $(stat -c %%s %s/lines) -gt %d", volume, len(now)))
}

// checkFiles checks the units, the manual pages and the completion of an installed package.
func (m *machine) checkFiles() {
	m.t.Helper()
	for _, unit := range []string{"berth", "berth-server"} {
		if said := m.must("systemd-analyze verify /usr/lib/systemd/system/" + unit + ".service"); said != "" {
			m.t.Errorf("the unit %s: %s", unit, said)
		}
	}
	m.checkUnits()
	// A unit below the directory gets the drop-in by its name.
	mount := "/run/systemd/system/var-lib-berth-x.mount"
	m.must("printf '[Mount]\\nWhat=tmpfs\\nType=tmpfs\\nWhere=/var/lib/berth/x\\n' >" + mount)
	if said := m.must("systemd-analyze verify " + mount); said != "" {
		m.t.Errorf("a mount with the drop-in: %s", said)
	}
	m.must("systemctl daemon-reload")
	expect(m.t, m.must("systemctl show -P DropInPaths var-lib-berth-x.mount"), "berth-mounts.conf")
	expect(m.t, m.must("systemctl show -P Before var-lib-berth-x.mount"), "berth.service")
	m.must("rm " + mount + " && systemctl daemon-reload")

	m.must("man -w berth berth-job berth-doctor berth-convert")
	for _, program := range []string{"berth", "berth-convert"} {
		m.must("bash -c '. /usr/share/bash-completion/completions/" + program + " && complete -p " + program + "'")
		m.must("test -s /usr/share/fish/vendor_completions.d/" + program + ".fish")
		m.must("test -s /usr/share/zsh/vendor-completions/_" + program)
	}
	m.must("test $(stat -c %a /etc/default/berth) = 600")
	m.mustFail("command -v dockerd") // see removePrograms
}

func expect(t *testing.T, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("%q is not in: %s", want, text)
	}
}
