package taskconfig

import (
	"fmt"
	"maps"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/distribution/reference"
	"github.com/docker/go-units"

	"berth/structs"
)

// checkReference rejects names that no registry can have, or that the driver gives its own images.
func checkReference(b *block, image string) {
	if image == "" {
		return
	}

	ref, err := reference.ParseAnyReference(image)
	switch {
	case err != nil:
		b.reject("image", image, "%v", err)
	case isReserved(ref):
		b.reject("image", image, "the name is reserved for images of the driver; give the image another name")
	}
}

// LoadedImages is the name of images from the archives of jobs. The tag is of the driver's choice, so an
// archive replaces no image of another job.
const LoadedImages = "berth-load"

// reserved are the names of images that only the driver gives.
var reserved = []string{"berth-pause", LoadedImages}

// isReserved reports whether a reference has a name that only the driver gives.
func isReserved(ref reference.Reference) bool {
	named, ok := ref.(reference.Named)
	return ok && slices.Contains(reserved, reference.FamiliarName(named))
}

// requireAbsolute accepts "": a field that must be there is read by required.
func requireAbsolute(b *block, name, value string) {
	if value != "" && !path.IsAbs(value) {
		b.reject(name, value, "expected an absolute path")
	}
}

// checkPermissions accepts "", for which the driver takes all three.
func checkPermissions(b *block, p string) {
	if strings.Trim(p, "rwm") != "" || len(p) > 3 {
		b.reject("cgroup_permissions", p, "expected any of \"rwm\"")
	}
}

// It is only a form. The driver knows whether the node allows the capability, and the daemon whether there is
// one.
var capability = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z][a-z0-9_]{2,40}$`)
})

// readCapabilities reads names such as NET_ADMIN, CAP_NET_ADMIN or net_admin.
func readCapabilities(b *block, name string) []string {
	var out []string
	for i, s := range b.texts(name) {
		c := Capability(s)
		if !capability().MatchString(c) {
			b.reject(fmt.Sprintf("%s[%d]", name, i), s,
				"expected a capability such as \"net_admin\", or \"all\"")
			continue
		}
		out = append(out, c)
	}

	return out
}

// Capability returns the name of a capability as Task has it.
func Capability(name string) string {
	return strings.TrimPrefix(strings.ToLower(name), "cap_")
}

var securityOptions = []string{"apparmor", "label", "no-new-privileges", "seccomp", "systempaths"}

// readSecurity checks the names of the options. Their values depend on the node.
func readSecurity(b *block) []string {
	options := b.texts("security_opt")
	for i, o := range options {
		// The daemon takes both separators, as in seccomp=unconfined and no-new-privileges:true.
		name, _, _ := strings.Cut(o, "=")
		name, _, _ = strings.Cut(name, ":")
		if !slices.Contains(securityOptions, name) {
			b.reject(fmt.Sprintf("security_opt[%d]", i), o, "expected one of %s",
				strings.Join(securityOptions, ", "))
		}
	}

	return options
}

// readTmpfs reads elements such as "/run:size=64m,mode=755".
func readTmpfs(b *block) map[string]string {
	out := map[string]string{}
	for i, s := range b.texts("tmpfs") {
		target, options, _ := strings.Cut(s, ":")
		if !path.IsAbs(target) || path.Clean(target) == "/" {
			b.reject(fmt.Sprintf("tmpfs[%d]", i), s,
				"expected a path in the container, and options after a colon")
			continue
		}
		target = path.Clean(target)
		// The daemon has the options by path, so one of the two would be lost.
		if _, twice := out[target]; twice {
			b.fault(fmt.Sprintf("tmpfs[%d]", i), "%q is there twice", structs.Cut(target, structs.MaxQuoted))
		}
		out[target] = options
	}

	return out
}

var propagations = []string{"private", "rprivate", "shared", "rshared", "slave", "rslave"}

// readMount reads a `mount` block. Options of another type are faults: the daemon would drop them without a
// word.
func readMount(b *block) Mount {
	m := Mount{
		Type:     b.oneOf("type", MountBind, MountVolume, MountTmpfs),
		Source:   b.text("source"),
		Target:   b.required("target", "a path in the container"),
		ReadOnly: b.boolean("readonly"),
	}

	if m.Type == "" {
		m.Type = MountVolume
	}

	checkTarget(b, m.Target)
	only := func(kind, name string, read func(*block)) {
		_, set := b.take(name)
		if set && m.Type != kind && !b.isOpen(m.Type) {
			b.fault(name, "is for a mount of type %q, and the type is %q", kind, m.Type)
			return
		}

		b.one(name, read)
	}

	only(MountBind, "bind_options", func(b *block) {
		m.Propagation = b.oneOf("propagation", propagations...)
	})

	only(MountVolume, "volume_options", func(b *block) {
		m.NoCopy = b.boolean("no_copy")
		m.Labels = b.pairs("labels")
		b.one("driver_config", func(b *block) {
			m.Driver = b.text("name")
			m.DriverOpts = b.pairs("options")
		})
	})

	only(MountTmpfs, "tmpfs_options", func(b *block) {
		m.TmpfsSize = b.number("size", 0, maxSize)
		m.TmpfsMode = int(b.number("mode", 0, 0o7777))
	})

	checkSource(b, m)
	return m
}

func checkTarget(b *block, target string) {
	if target != "" && (!path.IsAbs(target) || path.Clean(target) == "/") {
		b.reject("target", target, "expected an absolute path in the container")
	}
}

// checkSource checks a source by the type of the mount, which is read before it.
func checkSource(b *block, m Mount) {
	switch {
	case m.Type == MountBind && m.Source == "":
		b.fault("source", "missing; expected a path")
	case m.Type == MountTmpfs && m.Source != "":
		b.fault("source", "a mount of type %q has none", MountTmpfs)
	case m.Type == MountVolume && m.Source != "" && !volumeName().MatchString(m.Source):
		b.reject("source", m.Source, "expected the name of a volume")
	}
}

var volumeName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,254}$`)
})

var volumeModes = append([]string{"ro", "rw", "z", "Z", "nocopy"}, propagations...)

// parseVolume reads "source:target" or "source:target:mode". A source without a slash is below the task's
// directory, like one with a slash, and no volume of the daemon: those have mount blocks.
func parseVolume(s string) (v Volume, problem string) {
	parts := strings.Split(s, ":")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" {
		return v, fmt.Sprintf("%q: expected \"source:target\" or \"source:target:mode\"",
			structs.Cut(s, structs.MaxQuoted))
	}

	v.Source = parts[0]
	v.Target = parts[1]
	if !path.IsAbs(v.Target) || path.Clean(v.Target) == "/" {
		return v, fmt.Sprintf("%q: expected an absolute path in the container",
			structs.Cut(v.Target, structs.MaxQuoted))
	}

	if len(parts) < 3 {
		return v, ""
	}

	v.Mode = parts[2]
	for mode := range strings.SplitSeq(v.Mode, ",") {
		if !slices.Contains(volumeModes, mode) {
			return v, fmt.Sprintf("mode %q: expected %s", structs.Cut(mode, structs.MaxQuoted),
				strings.Join(volumeModes, ", "))
		}
	}

	return v, ""
}

// readAddresses reads a list of addresses without ports.
func readAddresses(b *block, name string) []string {
	list := b.texts(name)
	for i, s := range list {
		_, err := netip.ParseAddr(s)
		if err != nil {
			b.reject(fmt.Sprintf("%s[%d]", name, i), s, "expected an address")
		}
	}
	return list
}

// readExtraHosts reads lines for the container's /etc/hosts. Only the daemon knows the address of
// host-gateway.
func readExtraHosts(b *block) []string {
	list := b.texts("extra_hosts")
	for i, s := range list {
		name, address, _ := strings.Cut(s, ":")
		_, err := netip.ParseAddr(address)
		if name == "" || err != nil && address != "host-gateway" {
			b.reject(fmt.Sprintf("extra_hosts[%d]", i), s, "expected \"name:address\"")
		}
	}
	return list
}

// readUlimits reads pairs such as nofile = "2048:4096".
func readUlimits(b *block) []*units.Ulimit {
	var out []*units.Ulimit
	pairs := b.pairs("ulimit")

	// Sorted, the faults have the same order each time.
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		u, err := units.ParseUlimit(name + "=" + pairs[name])
		// A reference may stand for a pair that can be parsed.
		if err != nil && b.isOpen(pairs[name]) {
			continue
		}
		if err != nil {
			b.fault("ulimit", "%v; expected a limit such as nofile = \"2048:4096\"", err)
			continue
		}
		out = append(out, u)
	}

	return out
}

// readProcessors reads a list of processors such as "0-2,4".
func readProcessors(b *block) string {
	const name = "cpuset_cpus"
	s := b.text(name)
	if s == "" {
		return ""
	}

	for part := range strings.SplitSeq(s, ",") {
		low, high, isRange := strings.Cut(part, "-")
		first, err := strconv.ParseUint(low, 10, 32)
		last := first
		if isRange && err == nil {
			last, err = strconv.ParseUint(high, 10, 32)
		}

		if err != nil || first > last || last > maxCPU {
			b.reject(name, s, "expected processors such as \"0-2,4\", each from 0 to %d", maxCPU)
			return ""
		}
	}

	return s
}
