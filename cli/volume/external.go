package volume

import (
	"context"
	"fmt"
	"strings"

	"berth/api"
	"berth/api/show"
	"berth/api/volumes"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
)

// externalPages bounds the pages of one plugin in a listing.
const externalPages = 100

// verboseListing is the -json form of volume status -verbose.
type verboseListing struct {
	Volumes  []*structs.CSIVolumeListStub
	External []*pluginVolumes
}

// pluginVolumes has the volumes that one plugin lists. It is the -json form of volume status -external.
type pluginVolumes struct {
	PluginID string
	volumes.ExternalVolumes
}

// externalListing shows the volumes that the plugin of -external lists.
func externalListing(ctx context.Context, c *command.Call) error {
	id, err := c.Resolve(ctx, "plugin", c.String("external"))
	if err != nil {
		return err
	}
	vols, _, err := volumes.List(ctx, c.API, volumes.Filter{PluginID: id}, nil)
	if err != nil {
		return err
	}
	p, err := awaitExternal(ctx, c, id)
	if err != nil {
		return err
	}
	return c.Show(p, func() error {
		printExternal(c, p, namesOf(vols))
		return nil
	})
}

// showVerbose shows the volumes of berth and below them the volumes that the plugins list.
func showVerbose(
	ctx context.Context, c *command.Call, filter volumes.Filter, vols []*structs.CSIVolumeListStub,
) error {
	if filter.NodeID != "" {
		return command.BadUsage("-verbose excludes -node, because the volumes of a plugin belong to no node")
	}

	var ids []string
	if filter.PluginID != "" {
		ids = []string{filter.PluginID}
	} else {
		plugins, _, err := volumes.ListPlugins(ctx, c.API, nil)
		if err != nil {
			return err
		}

		for _, p := range plugins {
			ids = append(ids, p.ID)
		}
	}

	all := verboseListing{Volumes: vols}
	for _, id := range ids {
		p, err := awaitExternal(ctx, c, id)
		if err != nil && (len(ids) == 1 || ctx.Err() != nil) {
			return err
		}
		if err != nil {
			p.Warnings = append(p.Warnings, err.Error())
		}

		all.External = append(all.External, p)
	}

	return c.Show(all, func() error {
		volumeSheet.Print(c, "volume", all.Volumes)
		names := namesOf(all.Volumes)
		for _, p := range all.External {
			printExternal(c, p, names)
		}
		return nil
	})
}

// awaitExternal is listExternal, and tells a user that waits for the plugin what it waits for.
func awaitExternal(ctx context.Context, c *command.Call, id string) (p *pluginVolumes, err error) {
	lists := fmt.Sprintf("plugin %q, which lists its volumes", id)
	err = watch.New(c).Await(ctx, lists, watch.SeePlugin(id), func() (err error) {
		p, err = listExternal(ctx, c, id)
		return err
	})
	return p, err
}

// listExternal reads all pages of a plugin's list. With an error it also returns the pages before the error.
func listExternal(ctx context.Context, c *command.Call, id string) (*pluginVolumes, error) {
	p := &pluginVolumes{PluginID: id}
	q := &api.Query{}
	for range externalPages {
		page, err := volumes.ListExternal(ctx, c.API, id, q)
		if err != nil {
			return p, err
		}

		p.Volumes = append(p.Volumes, page.Volumes...)
		p.Warnings = append(p.Warnings, page.Warnings...)
		q.NextToken = page.NextToken
		if q.NextToken == "" {
			return p, nil
		}
	}

	p.NextToken = q.NextToken
	p.Warnings = append(p.Warnings,
		fmt.Sprintf("the list is cut after %d volumes", len(p.Volumes)))
	return p, nil
}

// externalKey names a volume at its plugin.
type externalKey struct{ plugin, external string }

// namesOf returns the IDs of volumes by their plugins' IDs.
func namesOf(vols []*structs.CSIVolumeListStub) map[externalKey]string {
	names := map[externalKey]string{}
	for _, v := range vols {
		names[externalKey{v.PluginID, v.ExternalID}] = v.ID
	}
	return names
}

func printExternal(c *command.Call, p *pluginVolumes, names map[externalKey]string) {
	var rows command.Grid
	unknown := 0
	for _, v := range p.Volumes {
		if v.Record == structs.ExternalUnknown {
			unknown++
		}
		rows.AddRow(
			v.ExternalID,
			names[externalKey{p.PluginID, v.ExternalID}],
			strayText(v),
			show.Size(v.CapacityBytes),
			conditionText(v),
			strings.Join(v.PublishedExternalNodeIDs, ", "),
		)
	}

	c.Section(fmt.Sprintf("Known to plugin %s", p.PluginID),
		"External ID|Volume|Stray|Capacity|Condition|Nodes", rows)
	if unknown > 0 {
		warnOfPlugin(c, p.PluginID, fmt.Sprintf("whether %d of the volumes are strays is unknown: either the "+
			"token may not read the volumes of all namespaces, or a volume is being created", unknown))
	}
	for _, text := range p.Warnings {
		warnOfPlugin(c, p.PluginID, text)
	}
}

func warnOfPlugin(c *command.Call, id, text string) {
	fmt.Fprintf(c.Err, "Warning: plugin %s: %s\n", id, text)
}

// strayText says whether no volume of berth has a listed one. It is "" for a server of an earlier version.
func strayText(v *structs.CSIVolumeExternalStub) string {
	switch v.Record {
	case structs.ExternalStray:
		return "yes"
	case structs.ExternalRecorded:
		return "no"
	}
	return v.Record
}

func conditionText(v *structs.CSIVolumeExternalStub) string {
	if v.IsAbnormal {
		return show.WithDescription("abnormal", v.Status)
	}
	return v.Status
}
