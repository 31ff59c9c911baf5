package volume

import (
	"context"
	"strings"

	"berth/api/volumes"
	"berth/cli/command"
	"berth/structs"
	"berth/structs/storage"
)

// stickyClaimFlags select the claims of groups on sticky host volumes.
var stickyClaimFlags = []command.Flag{
	{
		Name:  "type",
		Kind:  command.String,
		Value: "type",
		Usage: "The type of the volumes: csi, the default, or host for sticky host volumes",
	},
	{Name: "job", Kind: command.String, Value: "id", Usage: "List the claims of one job on sticky host volumes"},
	{Name: "group", Kind: command.String, Value: "name", Usage: "List the claims of one group on them"},
	{Name: "volume-name", Kind: command.String, Value: "name", Usage: "List the claims on those of a name"},
}

// ofSticky reports whether a list of claims is one of sticky host volumes.
func ofSticky(c *command.Call) (bool, error) {
	ofHosts, err := ofHosts(c)
	selects := c.Given("job") || c.Given("group") || c.Given("volume-name")
	if err == nil && selects && c.Given("type") && !ofHosts {
		return false, command.BadUsage("-job, -group and -volume-name are for -type host")
	}
	return ofHosts || selects, err
}

var stickyClaimSheet = command.Sheet[*storage.TaskGroupHostVolumeClaim]{
	Titles: "ID|Volume Name|Volume ID|Job|Group|Allocation",
	Row: func(c *command.Call, v *storage.TaskGroupHostVolumeClaim) []string {
		return []string{v.ID, v.VolumeName, c.ID(v.VolumeID), v.JobID, v.TaskGroupName, c.ID(v.AllocID)}
	},
}

// listStickyClaims shows the claims of groups on sticky host volumes.
func listStickyClaims(ctx context.Context, c *command.Call) error {
	if c.Given("volume") || c.Given("node") || c.Given("alloc") {
		return command.BadUsage("-volume, -node and -alloc are for the claims of -type csi")
	}

	all, meta, err := volumes.ListStickyClaims(ctx, c.API, volumes.StickyClaimFilter{
		JobID:      c.String("job"),
		TaskGroup:  c.String("group"),
		VolumeName: c.String("volume-name"),
	}, c.Page())
	err = c.CheckFound(ctx, len(all), err)
	if err != nil {
		return err
	}
	return c.Show(all, func() error {
		stickyClaimSheet.Print(c, "claim", all)
		c.PrintNextPage(meta)
		return nil
	})
}

// findStickyClaim returns the claim on a sticky host volume whose ID is a text, or the only one whose ID
// begins with it, nil if there is none or the caller may not see it.
func findStickyClaim(ctx context.Context, c *command.Call, prefix string) (
	*storage.TaskGroupHostVolumeClaim, error,
) {
	if strings.Contains(prefix, ".") { // the ID of the claim of an allocation
		return nil, nil
	}
	all, _, err := volumes.ListStickyClaims(ctx, c.API, volumes.StickyClaimFilter{}, nil)
	if structs.IsKind(err, structs.KindDenied) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	var found []*storage.TaskGroupHostVolumeClaim
	for _, v := range all {
		if v.ID == prefix {
			return v, nil
		}
		if strings.HasPrefix(v.ID, prefix) {
			found = append(found, v)
		}
	}
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	}
	return nil, structs.Invalidf("%d claims on sticky host volumes have an ID that begins with %q; to see them: %s", len(found), prefix,
		structs.CommandLine(c.Namespace(), "volume claim list", "-type", "host"))
}

// deleteStickyClaim deletes a claim on a sticky host volume.
func deleteStickyClaim(ctx context.Context, c *command.Call, v *storage.TaskGroupHostVolumeClaim) error {
	if c.Bool("dry-run") || c.Bool("force") || c.Given("reason") {
		return command.BadUsage("-dry-run, -force and -reason are for the claim of an allocation: claim %s is "+
			"that of group %s on sticky host volume %s", v.ID, v.TaskGroupName, v.VolumeName)
	}
	err := volumes.DeleteStickyClaim(ctx, c.API, v.ID)
	if err != nil {
		return err
	}
	return c.Report(command.Changed{"ClaimID": v.ID},
		"Claim %s of group %q on host volume %q is deleted", v.ID, v.TaskGroupName, v.VolumeName)
}
