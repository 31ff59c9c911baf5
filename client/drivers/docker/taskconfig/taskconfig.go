// Package taskconfig has what people write for the docker driver: the `config {}` block of a task, and the
// operator's Settings of the node with their defaults and checks. The block is decoded strictly: an unknown
// field, a missing one, and a value of a wrong type or beyond its bounds are faults, each named by its path.
// The package asks no daemon and does not decide what a task gets: package hostconfig does.
package taskconfig

import (
	"maps"
	"slices"
	"time"

	"github.com/docker/go-units"

	"berth/structs"
)

// Task is the block.
type Task struct {
	Image       string
	Load        string        // an archive in the task's directory, which has the image
	PullTimeout time.Duration // 0: the node's
	ForcePull   bool
	Auth        *Auth
	// AuthSoftFail lets the download go on without credentials that cannot be had or that are rejected.
	AuthSoftFail bool

	Entrypoint  []string // nil: the image's
	Command     string
	Args        []string
	WorkDir     string
	Hostname    string
	Interactive bool
	TTY         bool
	Init        bool
	Labels      map[string]string
	Logging     *Logging // nil: the driver's
	Health      Health

	Privileged     bool
	CapAdd         []string // without "CAP_", in lower case; "all" is every one
	CapDrop        []string
	SecurityOpt    []string
	GroupAdd       []string
	ReadonlyRootfs bool
	Devices        []Device
	Runtime        string // "": the daemon's

	Mounts     []Mount
	Volumes    []Volume
	Tmpfs      map[string]string // options by path in the container
	StorageOpt map[string]string
	ShmSize    int64 // bytes; 0 is the daemon's default

	NetworkMode string
	Ports       []string // labels of the group's ports that are published
	DNSServers  []string
	DNSSearch   []string
	DNSOptions  []string
	ExtraHosts  []string // "name:address"
	PIDMode     string   // "" or "host", as the next three
	IPCMode     string
	UTSMode     string
	UsernsMode  string

	Sysctl          map[string]string
	Ulimits         []*units.Ulimit
	PIDsLimit       int64  // 0: the node's
	CPUSet          string // the processors, such as "0-2,4"; "" is all
	CPUHardLimit    bool
	CPUCFSPeriod    time.Duration // 0: 100 ms
	MemoryHardLimit int           // MiB; 0: the task's memory_max
	OOMScoreAdj     int
}

// Auth are the credentials for the image's registry.
type Auth struct{ Username, Password, ServerAddress string }

// Health is the container's own health check.
type Health struct {
	Disable     bool
	Test        []string // nil: the image's
	Interval    time.Duration
	Timeout     time.Duration
	StartPeriod time.Duration
	Retries     int
}

// Device is a device file of the host.
type Device struct{ HostPath, ContainerPath, Permissions string }

// The types of a Mount.
const (
	MountBind   = "bind"
	MountVolume = "volume"
	MountTmpfs  = "tmpfs"
)

// Mount is a `mount` block.
type Mount struct {
	Type        string
	Source      string // of a bind mount a path of the host, or in the task's directory; of a volume its name
	Target      string
	ReadOnly    bool
	Propagation string
	NoCopy      bool
	Labels      map[string]string
	Driver      string
	DriverOpts  map[string]string
	TmpfsSize   int64 // bytes
	TmpfsMode   int
}

// Volume is an element of `volumes`.
type Volume struct{ Source, Target, Mode string }

const (
	maxSize      = 1 << 50     // bytes of a file system in memory
	maxPIDs      = 4 << 20     // the kernel's bound
	maxPeriod    = time.Second // the kernel's bound of a quota's period
	minCPUPeriod = time.Millisecond
	maxOOMScore  = 1000
	maxRetries   = 1000
	maxCPU       = 8191 // the kernel's greatest number of a processor
)

// Decode reads the block. The error is invalid and has a line for each fault.
func Decode(config map[string]any) (*Task, error) { return read(config, false) }

// Check is Decode for a block as the job has it. A value with a reference is not checked, because only the
// node knows the value at the start of the task. It must be a text or absent in the result.
func Check(config map[string]any) (*Task, error) { return read(config, true) }

// Options returns the names of the fields of the block.
func Options() []string {
	var faults []error
	b := newBlock("config", nil, &faults)
	new(Task).readAll(b)
	return slices.Sorted(maps.Keys(b.known))
}

func read(config map[string]any, early bool) (*Task, error) {
	// The list is shared with all inner blocks: a job learns all its faults at once.
	var faults []error
	b := newBlock("config", config, &faults)
	b.early = early
	t := &Task{}
	t.readAll(b)
	b.end()
	return t, structs.InvalidAll(faults)
}

func (t *Task) readAll(b *block) {
	t.readImage(b)
	t.readProgram(b)
	t.readIsolation(b)
	t.readFiles(b)
	t.readNetwork(b)
	t.readLimits(b)
	// These follow the others: end knows all names only then.
	rejectOthers(b)
}

// readImage reads the fields that say where the image comes from.
func (t *Task) readImage(b *block) {
	t.Image = b.required("image", "the reference of an image, such as \"registry/name:tag\"")
	checkReference(b, t.Image)
	t.Load = b.text("load")
	t.PullTimeout = b.duration("image_pull_timeout", structs.MaxTaskWait)
	t.ForcePull = b.boolean("force_pull")
	if t.Load != "" && t.ForcePull {
		b.fault("force_pull", "the image comes from the archive in config.load; remove one of the two")
	}

	t.AuthSoftFail = b.boolean("auth_soft_fail")
	b.one("auth", func(b *block) {
		t.Auth = &Auth{
			Username:      b.text("username"),
			Password:      b.text("password"),
			ServerAddress: b.text("server_address"),
		}

		b.text("email") // registries ignore it
		if t.Auth.Username == "" || t.Auth.Password == "" {
			b.fault("", "expected a username and a password")
		}
	})
}

// readProgram reads the fields that say what runs in the container.
func (t *Task) readProgram(b *block) {
	t.Entrypoint = readEntrypoint(b)
	t.Command = b.text("command")
	t.Args = b.texts("args")
	t.WorkDir = b.text("work_dir")
	requireAbsolute(b, "work_dir", t.WorkDir)
	t.Hostname = b.text("hostname")
	t.Interactive = b.boolean("interactive")
	t.TTY = b.boolean("tty")
	t.Init = b.boolean("init")
	t.Labels = b.pairs("labels")
	t.Logging = readLogging(b)

	b.one("healthchecks", func(b *block) {
		t.Health = Health{
			Disable:     b.boolean("disable"),
			Test:        b.texts("test"),
			Interval:    b.duration("interval", structs.MaxTaskWait),
			Timeout:     b.duration("timeout", structs.MaxTaskWait),
			StartPeriod: b.duration("start_period", structs.MaxTaskWait),
			Retries:     int(b.number("retries", 0, maxRetries)),
		}

		if t.Health.Disable && t.Health.Test != nil {
			b.fault("disable", "the block has a test; remove one of the two")
		}
	})
}

// readEntrypoint reads a list, or a string that is a list of one.
func readEntrypoint(b *block) []string {
	v, _ := b.take("entrypoint")
	if s, isText := v.(string); isText {
		return []string{s}
	}
	return b.texts("entrypoint")
}

// readIsolation reads the fields that open the container to the host, or close it.
func (t *Task) readIsolation(b *block) {
	t.Privileged = b.boolean("privileged")
	t.CapAdd = readCapabilities(b, "cap_add")
	t.CapDrop = readCapabilities(b, "cap_drop")
	t.SecurityOpt = readSecurity(b)
	t.GroupAdd = b.texts("group_add")
	t.Runtime = b.text("runtime")
	t.ReadonlyRootfs = b.boolean("readonly_rootfs")
	t.PIDMode = b.oneOf("pid_mode", "host")
	t.IPCMode = b.oneOf("ipc_mode", "host", "none", "private", "shareable")
	t.UTSMode = b.oneOf("uts_mode", "host")
	t.UsernsMode = b.oneOf("userns_mode", "host")
	b.each("devices", func(b *block) {
		d := Device{
			HostPath:      b.required("host_path", "the path of a device file"),
			ContainerPath: b.text("container_path"),
			Permissions:   b.text("cgroup_permissions"),
		}

		requireAbsolute(b, "host_path", d.HostPath)
		requireAbsolute(b, "container_path", d.ContainerPath)
		checkPermissions(b, d.Permissions)
		t.Devices = append(t.Devices, d)
	})
}

// readFiles reads what the container has besides its image.
func (t *Task) readFiles(b *block) {
	t.Tmpfs = readTmpfs(b)
	t.StorageOpt = b.pairs("storage_opt")
	t.ShmSize = b.number("shm_size", 0, maxSize)
	// A job may write either name.
	for _, name := range []string{"mounts", "mount"} {
		b.each(name, func(b *block) { t.Mounts = append(t.Mounts, readMount(b)) })
	}

	for i, text := range b.texts("volumes") {
		v, problem := parseVolume(text)
		if problem != "" && b.isOpen(text) {
			continue
		}

		if problem != "" {
			b.fault("volumes", "element %d: %s", i, problem)
			continue
		}

		t.Volumes = append(t.Volumes, v)
	}
}

// readNetwork reads the fields of the network. The driver checks which of them a network of the group
// excludes.
func (t *Task) readNetwork(b *block) {
	t.NetworkMode = b.text("network_mode")
	t.Ports = b.texts("ports")
	t.DNSServers = readAddresses(b, "dns_servers")
	t.DNSSearch = b.texts("dns_search_domains")
	t.DNSOptions = b.texts("dns_options")
	t.ExtraHosts = readExtraHosts(b)
}

// readLimits reads the fields beside the task's resources. The bounds are the kernel's.
func (t *Task) readLimits(b *block) {
	t.Sysctl = b.pairs("sysctl")
	t.Ulimits = readUlimits(b)
	t.PIDsLimit = b.number("pids_limit", 1, maxPIDs)
	t.CPUSet = readProcessors(b)
	t.CPUHardLimit = b.boolean("cpu_hard_limit")
	t.CPUCFSPeriod = time.Duration(b.number("cpu_cfs_period",
		minCPUPeriod.Microseconds(), maxPeriod.Microseconds())) * time.Microsecond
	t.MemoryHardLimit = int(b.number("memory_hard_limit", 0, structs.MaxMemoryMB))
	t.OOMScoreAdj = int(b.number("oom_score_adj", 0, maxOOMScore))
}

// rejectOthers names the fields that other programs of this kind have and berth does not.
func rejectOthers(b *block) {
	b.unsupported("port_map", "name the ports of the group's network in config.ports, each with its \"to\"")
}
