package engine

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/moby/moby/client"
)

// Info describes a daemon.
type Info struct {
	Version       string
	APIVersion    string // in use
	OSType        string
	CgroupVersion string
	CgroupDriver  string
	StorageDriver string
	Runtimes      []string
	// DefaultRuntime is the runtime of containers that name none.
	DefaultRuntime string
	LiveRestore    bool // containers outlive the daemon
	Remaps         bool // containers have a user namespace of their own, or the daemon has one
}

// Info asks the daemon about itself.
func (e *Engine) Info(ctx context.Context) (*Info, error) {
	var info *Info
	err := e.call(ctx, "asking for information", quickTimeout, func(ctx context.Context, api *moby) error {
		answer, err := api.Info(ctx, client.InfoOptions{})
		if err != nil {
			return err
		}

		i := answer.Info
		info = &Info{
			Version:        i.ServerVersion,
			APIVersion:     api.ClientVersion(),
			OSType:         i.OSType,
			CgroupVersion:  i.CgroupVersion,
			CgroupDriver:   i.CgroupDriver,
			StorageDriver:  i.Driver,
			Runtimes:       slices.Sorted(maps.Keys(i.Runtimes)),
			DefaultRuntime: i.DefaultRuntime,
			LiveRestore:    i.LiveRestoreEnabled,
			Remaps:         slices.ContainsFunc(i.SecurityOptions, isRemap),
		}

		return nil
	})

	return info, err
}

// isRemap reports whether a security option of a daemon says that root of a container is not root here.
func isRemap(option string) bool {
	name, _, _ := strings.Cut(option, ",")
	return name == "name=userns" || name == "name=rootless"
}
