package doctor

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// checkMounts looks at the propagation of mounts. An agent in a mount namespace of its own loses its mounts
// with each restart, while tasks and plugins keep theirs. A private mount below the data directory keeps the
// volumes from programs that have a namespace of their own, such as a docker daemon.
func checkMounts(_ context.Context, m *Machine) []Finding {
	if !m.Client {
		return one(Skip, "servers alone mount nothing", "")
	}

	for _, pid := range m.agents() {
		if m.hasOwnNamespace(pid) {
			return one(Fail, fmt.Sprintf("the agent, process %s, has a mount namespace of its own, "+
				"so its mounts are lost when it restarts", pid),
				"remove settings such as PrivateTmp, ProtectSystem and ReadOnlyPaths from its unit of systemd")
		}
	}

	mount := m.mountOf(m.DataDir)
	switch {
	case mount == nil:
		return one(Skip, "the mounts of the machine cannot be read", "")
	case !strings.Contains(mount.Optional, "shared:"):
		return one(Warn, fmt.Sprintf("the mount %s, which has data_dir, is not shared: a docker daemon or another "+
			"program with a mount namespace of its own does not see the volumes", mount.Mountpoint),
			"mount --make-rshared "+mount.Mountpoint+" (at each boot; systemd does this for /)")
	}
	return one(OK, "other programs see mounts below "+m.DataDir, "")
}

// agents returns the IDs of the processes that are agents.
func (m *Machine) agents() (pids []string) {
	lines, err := filepath.Glob(m.path("proc/[0-9]*/cmdline"))
	if err != nil {
		return nil // never: the pattern is valid
	}

	for _, path := range lines {
		line, err := os.ReadFile(path)
		words := bytes.Split(line, []byte{0})
		if err != nil || len(words) < 2 {
			continue // it has ended
		}
		if filepath.Base(string(words[0])) == "berth" && string(words[1]) == "agent" {
			pids = append(pids, filepath.Base(filepath.Dir(path)))
		}
	}
	return pids
}

// hasOwnNamespace reports whether a process surely has another mount namespace than the first process.
func (m *Machine) hasOwnNamespace(pid string) bool {
	own, ownErr := os.Readlink(m.path("proc/" + pid + "/ns/mnt"))
	first, firstErr := os.Readlink(m.path("proc/1/ns/mnt"))
	return ownErr == nil && firstErr == nil && own != first
}

// modules are the parts of the kernel that nodes use, with the features that need them.
var modules = []struct{ name, feature string }{
	{"loop", "images of the hostpath driver"},
	{"ext4", "volumes with ext4"},
	{"veth", "networks of allocations"},
	{"bridge", "networks with mode bridge"},
}

// checkModules looks for parts of the kernel that are loaded, built in, or can be loaded.
func checkModules(_ context.Context, m *Machine) []Finding {
	if !m.Client {
		return one(Skip, "servers alone need no modules", "")
	}

	var lacks []Finding
	for _, mod := range modules {
		if m.hasModule(mod.name) {
			continue
		}
		f := Finding{
			Result: Warn,
			Text:   fmt.Sprintf("the kernel has no module %s, which %s need", mod.name, mod.feature),
			Remedy: "install the modules of the kernel, or a kernel with it",
		}
		if !m.exists(m.builtin()) {
			f = Finding{
				Result: Skip,
				Text: fmt.Sprintf("the kernel does not tell whether it has the module %s, which %s need",
					mod.name, mod.feature),
				Remedy: "modprobe " + mod.name,
			}
		}
		lacks = append(lacks, f)
	}
	if len(lacks) > 0 {
		return lacks
	}
	return one(OK, "the kernel has loop devices, ext4, bridges and virtual links", "")
}

// builtin returns the path of the list of the modules that are built into the kernel.
func (m *Machine) builtin() string {
	release, _ := m.read("proc/sys/kernel/osrelease") // without it there is no list either
	return "lib/modules/" + release + "/modules.builtin"
}

// hasModule reports whether a module is loaded, built in or in the directory of modules.
func (m *Machine) hasModule(name string) bool {
	systems, _ := m.read("proc/filesystems") // without the file, the other places tell
	for line := range strings.Lines(systems) {
		fields := strings.Fields(line)
		if len(fields) > 0 && fields[len(fields)-1] == name {
			return true
		}
	}

	if m.exists("sys/module/"+name) || m.exists("dev/"+name+"-control") {
		return true
	}

	for _, list := range []string{m.builtin(), filepath.Dir(m.builtin()) + "/modules.dep"} {
		text, _ := m.read(list)
		if strings.Contains(text, "/"+name+".ko") {
			return true
		}
	}
	return false
}
