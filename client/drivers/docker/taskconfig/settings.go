package taskconfig

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/structs"
)

// Settings has the operator's settings.
type Settings struct {
	// Endpoint is the daemon's address: unix:// and the path of its socket.
	Endpoint string `hcl:"endpoint"`
	// AllowPrivileged lets jobs ask for privileges over the host: privileged containers, namespaces and
	// device files of the host. A task that runs a CSI plugin has them in any case.
	AllowPrivileged bool `hcl:"allow_privileged"`
	// AllowCaps are the capabilities that containers may have; "all" is every one. nil selects the ones that
	// container engines give by default, without raw sockets.
	AllowCaps []string `hcl:"allow_caps"`
	// AllowLogging are the log drivers of the daemon that jobs may name. Others send the output away, some
	// with credentials of the node. nil selects the drivers that keep it on the node, or not at all.
	AllowLogging []string `hcl:"allow_logging"`
	// ExtraLabels are names of labels that containers get besides berth's own, see LabelNames. A name may
	// have wildcards, as path.Match knows them.
	ExtraLabels []string `hcl:"extra_labels"`
	// AllowRuntimes are the runtimes of the daemon that jobs may name. nil selects the daemon's default one,
	// and NVIDIA's.
	AllowRuntimes []string `hcl:"allow_runtimes"`
	// PIDsLimit is the most processes and threads that a task may have at a time; -1 is no limit.
	PIDsLimit int `hcl:"pids_limit"`
	// PullActivityTimeout is the longest time without progress of a download or a load.
	PullActivityTimeout time.Duration `hcl:"pull_activity_timeout"`

	Volumes VolumeConfig `hcl:"volumes,block"`
	GC      GCConfig     `hcl:"gc,block"`
	Auth    AuthConfig   `hcl:"auth,block"`
}

// VolumeConfig has the settings of mounts that a job asks for.
type VolumeConfig struct {
	// Enabled lets jobs mount paths of the host, and use the drivers of the daemon's volumes.
	Enabled bool `hcl:"enabled"`
}

// GCConfig has the settings of the removal of what tasks leave.
type GCConfig struct {
	// Image makes the driver remove images that no task has used for ImageDelay.
	Image      bool          `hcl:"image"`
	ImageDelay time.Duration `hcl:"image_delay"`
	// Container makes the driver remove the containers of ended tasks.
	Container bool           `hcl:"container"`
	Dangling  DanglingConfig `hcl:"dangling_containers,block"`
}

// DanglingConfig has the settings of the removal of containers of this node that belong to no task.
type DanglingConfig struct {
	Enabled bool `hcl:"enabled"`
	// DryRun logs the containers instead of removing them.
	DryRun bool `hcl:"dry_run"`
	// Period is the time between two searches.
	Period time.Duration `hcl:"period"`
	// CreationGrace is the least age of a container that is removed.
	CreationGrace time.Duration `hcl:"creation_grace"`
}

// AuthConfig has the credentials of registries, for tasks that bring none.
type AuthConfig struct {
	// Settings is a file in the form of docker's config.json.
	Config string `hcl:"config"`
	// Helper is the suffix of a program docker-credential-SUFFIX, which is asked after the file.
	Helper string `hcl:"helper"`
}

const (
	defaultEndpoint   = "unix:///var/run/docker.sock"
	defaultPIDsLimit  = 4096
	minPIDsLimit      = 8
	maxSocketPath     = 107 // of the kernel
	maxHelperName     = 64
	minSearchPeriod   = time.Second
	minActivityPeriod = time.Second
)

// DefaultSettings returns a Settings without missing settings.
func DefaultSettings() Settings {
	return Settings{
		Endpoint: defaultEndpoint,
		AllowCaps: []string{
			"audit_write", "chown", "dac_override", "fowner", "fsetid", "kill", "mknod",
			"net_bind_service", "setfcap", "setgid", "setpcap", "setuid", "sys_chroot",
		},
		AllowLogging:        []string{LogLocal, LogJSON, LogNone},
		PIDsLimit:           defaultPIDsLimit,
		PullActivityTimeout: 2 * time.Minute,
		GC: GCConfig{
			Image:      true,
			ImageDelay: 3 * time.Minute,
			Container:  true,
			Dangling: DanglingConfig{
				Enabled:       true,
				Period:        5 * time.Minute,
				CreationGrace: 5 * time.Minute,
			},
		},
	}
}

// WithDefaults returns the settings with a default for each missing one. false is no missing setting: a
// configuration starts from DefaultSettings.
func (c Settings) WithDefaults() Settings {
	d := DefaultSettings()
	c.Endpoint = cmp.Or(c.Endpoint, d.Endpoint)
	if c.AllowCaps == nil {
		c.AllowCaps = d.AllowCaps
	}

	c.AllowCaps = slices.Clone(c.AllowCaps)
	for i, name := range c.AllowCaps {
		c.AllowCaps[i] = Capability(name)
	}

	if c.AllowLogging == nil {
		c.AllowLogging = d.AllowLogging
	}

	c.PIDsLimit = cmp.Or(c.PIDsLimit, d.PIDsLimit)
	c.PullActivityTimeout = cmp.Or(c.PullActivityTimeout, d.PullActivityTimeout)
	c.GC.ImageDelay = cmp.Or(c.GC.ImageDelay, d.GC.ImageDelay)
	c.GC.Dangling.Period = cmp.Or(c.GC.Dangling.Period, d.GC.Dangling.Period)
	c.GC.Dangling.CreationGrace = cmp.Or(c.GC.Dangling.CreationGrace, d.GC.Dangling.CreationGrace)
	return c
}

// Validate names every fault. Missing settings have defaults.
func (c Settings) Validate() error {
	faults := []error{c.checkEndpoint()}
	for _, name := range c.AllowCaps {
		known := slices.Contains(Capabilities, Capability(name))
		if !known && !strings.EqualFold(name, AllCapabilities) {
			faults = append(faults,
				fmt.Errorf("docker.allow_caps: %q: expected a capability such as \"net_admin\", or \"all\"",
					name))
		}
	}

	faults = append(faults, c.checkExtraLabels()...)
	n := c.PIDsLimit
	if n != 0 && n != -1 && n < minPIDsLimit {
		faults = append(faults,
			fmt.Errorf("docker.pids_limit: %d: expected at least %d, or -1 for no limit", n, minPIDsLimit))
	}

	within := func(name string, d, least time.Duration) {
		if d != 0 && (d < least || d > structs.MaxInterval) {
			faults = append(faults, fmt.Errorf("docker.%s: %s: expected a time from %s to %s",
				name, d, least, structs.MaxInterval))
		}
	}

	within("pull_activity_timeout", c.PullActivityTimeout, minActivityPeriod)
	within("gc.image_delay", c.GC.ImageDelay, 0)
	within("gc.dangling_containers.period", c.GC.Dangling.Period, minSearchPeriod)
	within("gc.dangling_containers.creation_grace", c.GC.Dangling.CreationGrace, 0)
	if c.Auth.Config != "" && !filepath.IsAbs(c.Auth.Config) {
		faults = append(faults,
			fmt.Errorf("docker.auth.config: %q: expected an absolute path", c.Auth.Config))
	}

	h := c.Auth.Helper
	if h != filepath.Base(h) && h != "" || len(h) > maxHelperName {
		faults = append(faults,
			fmt.Errorf("docker.auth.helper: %q: expected the suffix of docker-credential-", h))
	}

	return structs.InvalidAll(faults)
}

// checkEndpoint accepts sockets of this machine only: the mounts of a task are paths of this machine.
func (c Settings) checkEndpoint() error {
	if c.Endpoint == "" {
		return nil
	}
	socket, isUnix := strings.CutPrefix(c.Endpoint, "unix://")
	if !isUnix || !filepath.IsAbs(socket) || len(socket) > maxSocketPath {
		return fmt.Errorf("docker.endpoint: %q: expected unix:// and the absolute path of a socket "+
			"of this machine, such as %q", c.Endpoint, defaultEndpoint)
	}
	return nil
}

// SocketExists reports whether a daemon has been here: it leaves its socket when it is killed.
func (c Settings) SocketExists() bool {
	socket := strings.TrimPrefix(c.Endpoint, "unix://")
	info, err := os.Stat(socket)
	return err == nil && info.Mode()&os.ModeSocket != 0
}

// LabelNames are the names of the labels of the dialect that a node may add to containers, without their
// prefix.
var LabelNames = []string{
	"job_name", "job_id", "task_group_name", "task_name", "namespace", "node_name", "node_id",
}

// checkExtraLabels names the settings that select no label.
func (c Settings) checkExtraLabels() []error {
	var faults []error
	for _, pattern := range c.ExtraLabels {
		if !slices.ContainsFunc(LabelNames, func(name string) bool { return matches(pattern, name) }) {
			faults = append(faults,
				fmt.Errorf("docker.extra_labels: %q: expected %s; a star stands for any text",
					pattern, strings.Join(LabelNames, ", ")))
		}
	}
	return faults
}

// SelectsLabel reports whether containers get the label with a name of LabelNames.
func (c Settings) SelectsLabel(name string) bool {
	return slices.ContainsFunc(c.ExtraLabels, func(pattern string) bool { return matches(pattern, name) })
}

func matches(pattern, name string) bool {
	is, err := path.Match(pattern, name)
	return is && err == nil
}
