package volume

import (
	"context"
	"fmt"
	"strings"

	"berth/api"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
)

// externalPages bounds the pages of one plugin in a listing.
const externalPages = 100

// externalListing is the -json form of volume status -verbose.
type externalListing struct {
	Volumes  []*structs.CSIVolumeListStub
	External []*pluginVolumes
}

// pluginVolumes has the volumes that one plugin lists.
type pluginVolumes struct {
	PluginID string
	api.ExternalVolumes
}

// showExternal shows the volumes of berth and below them the volumes that the plugins list.
func showExternal(
	ctx context.Context, c *command.Call, filter api.VolumeFilter, vols []*structs.CSIVolumeListStub,
) error {
	if filter.NodeID != "" {
		return command.BadUsage("-verbose excludes -node, because the volumes of a plugin belong to no node")
	}

	var ids []string
	if filter.PluginID != "" {
		ids = []string{filter.PluginID}
	} else {
		plugins, _, err := c.API.Plugins(ctx, nil)
		if err != nil {
			return err
		}

		for _, p := range plugins {
			ids = append(ids, p.ID)
		}
	}

	all := externalListing{Volumes: vols}
	for _, id := range ids {
		var p *pluginVolumes
		lists := fmt.Sprintf("plugin %q, which lists its volumes", id)
		err := watch.New(c).Await(ctx, lists, watch.SeePlugin(id), func() (err error) {
			p, err = listExternal(ctx, c, id)
			return err
		})
		if err != nil && (len(ids) == 1 || ctx.Err() != nil) {
			return err
		}
		if err != nil {
			p.Warnings = append(p.Warnings, err.Error())
		}

		all.External = append(all.External, p)
	}

	return c.Show(all, func() error {
		return printExternal(c, &all)
	})
}

// listExternal reads all pages of a plugin's list. With an error it also returns the pages before the error.
func listExternal(ctx context.Context, c *command.Call, id string) (*pluginVolumes, error) {
	p := &pluginVolumes{PluginID: id}
	q := &api.Query{}
	for range externalPages {
		page, err := c.API.VolumesExternal(ctx, id, q)
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

func printExternal(c *command.Call, all *externalListing) error {
	volumeSheet.Print(c, "volume", all.Volumes)
	own := map[string]string{}
	for _, v := range all.Volumes {
		own[v.PluginID+"\x00"+v.ExternalID] = v.ID
	}

	for _, p := range all.External {
		var rows command.Grid
		for _, v := range p.Volumes {
			rows.AddRow(
				v.ExternalID,
				own[p.PluginID+"\x00"+v.ExternalID],
				command.FormatSize(v.CapacityBytes),
				conditionText(v),
				strings.Join(v.PublishedExternalNodeIDs, ", "),
			)
		}

		c.Section(fmt.Sprintf("Known to plugin %s", p.PluginID),
			"External ID|Volume|Capacity|Condition|Nodes", rows)
		for _, text := range p.Warnings {
			fmt.Fprintf(c.Err, "Warning: plugin %s: %s\n", p.PluginID, text)
		}
	}

	return nil
}

func conditionText(v *structs.CSIVolumeExternalStub) string {
	if v.IsAbnormal {
		return command.WithDescription("abnormal", v.Status)
	}
	return v.Status
}
