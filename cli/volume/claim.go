package volume

import (
	"context"
	"strings"

	"berth/api/show"
	"berth/api/volumes"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
)

// claimCommands are the verbs of berth volume claim.
var claimCommands = []command.Command{
	{
		Name:     "list",
		Synopsis: "List claims with what holds each, or for what it waits",
		Renders:  true,
		Flags: append([]command.Flag{
			{Name: "volume", Kind: command.String, Value: "id", Usage: "List the claims on one volume"},
			{Name: "node", Kind: command.String, Value: "id", Usage: "List the claims of one node"},
			{Name: "alloc", Kind: command.String, Value: "id", Usage: "List the claims of one allocation"},
			command.VerboseFlag,
		}, append(stickyClaimFlags, command.PageFlags...)...),
		Help: `
The claims are those of allocations on CSI volumes and dynamic host volumes.
With -type host, -job, -group or -volume-name they are those of the groups of
jobs on sticky host volumes, which outlive their allocations.`,
		Run: claimList,
		Examples: "berth volume claim list\n" +
			"berth volume claim list -volume data\n" +
			"berth volume claim list -type host -job web\n" +
			"berth volume claim list -node n1",
	},
	{
		Name:     "release",
		Args:     "<volume> <alloc>",
		Synopsis: "Release the claim of an allocation that has ended",
		Help: `
The node of the claim is called, and has to confirm that it has unmounted the
volume. The claim of a running allocation is not released: stop it first.

-dry-run changes nothing. It prints what the release would do, and what
nothing proves. With -force it tells the same of a forced release.

With -force the claim is released although the node is down or its plugin does
not confirm the unmount, and the allocation counts as lost. Use it only if the
node is surely off, because a running node may continue to write. It is
rejected if the node answers and has the volume mounted. Only the operator
socket of the server that leads takes it; the error prints the command.`,
		Acts:  true,
		Flags: releaseFlags,
		Run:   claimRelease,
		Examples: "berth volume claim release data 3fe7f397\n" +
			"berth volume claim release -dry-run -force data 3fe7f397\n" +
			`berth volume claim release -force -reason "its power is off" data 3fe7f397`,
	},
	{
		Name:     "delete",
		Args:     "<claim>",
		Synopsis: "Release or delete the claim with an ID",
		Help: `
The ID of the claim of an allocation is that of the allocation, a dot and the
ID of the volume. The command does the same with it as volume claim release.

The claim of a group on a sticky host volume is deleted: the volume and the
allocation that has it stay, and the next allocation of the group chooses a
volume anew. The beginning of an ID suffices.`,
		Acts: true,
		Flags: append([]command.Flag{
			{Name: "y", Usage: "Accepted for compatibility; the command never asks"},
		}, releaseFlags...),
		Run: claimDelete,
		Examples: "berth volume claim delete -dry-run 3fe7f397\n" +
			"berth volume claim delete 3fe7f397",
	},
}

var releaseFlags = []command.Flag{
	{Name: "dry-run", Usage: "Print what would be done and what cannot be proved; change nothing"},
	{Name: "force", Usage: "Assert that the node does not write; release without its confirmation"},
	{
		Name:  "reason",
		Kind:  command.String,
		Value: "text",
		Usage: "The reason; recorded. Required with -force",
	},
}

var claimRowSheet = command.SheetOf(show.Claims, show.Claims.Titles, nil)

// claimList shows the claims of a volume, an allocation or a node. IDs may be prefixes.
func claimList(ctx context.Context, c *command.Call) error {
	sticky, err := ofSticky(c)
	if err != nil {
		return err
	}
	if sticky {
		return listStickyClaims(ctx, c)
	}

	filter := volumes.ClaimFilter{
		VolumeID: c.String("volume"),
		AllocID:  c.String("alloc"),
	}

	if c.Given("node") {
		id, err := c.Resolve(ctx, "node", c.String("node"))
		if err != nil {
			return err
		}
		filter.NodeID = id
	}

	if c.Given("alloc") {
		id, err := c.Resolve(ctx, "alloc", filter.AllocID)
		if err != nil {
			return err
		}
		filter.AllocID = id
	}

	all, meta, err := volumes.ListClaims(ctx, c.API, filter, c.Page())
	err = c.CheckFound(ctx, len(all), err)
	if err != nil {
		return err
	}

	return c.Show(all, func() error {
		claimRowSheet.Print(c, "claim", all)
		c.PrintNextPage(meta)
		return nil
	})
}

// findClaim returns the claim on a volume of the allocation with a prefix of its ID. It looks among the
// claims, because the allocation itself may have no row any more.
func findClaim(ctx context.Context, c *command.Call, volume, prefix string) (
	*structs.VolumeClaimStub, error,
) {
	all, _, err := volumes.ListClaims(ctx, c.API, volumes.ClaimFilter{VolumeID: volume}, nil)
	if err != nil {
		return nil, err
	}

	allocOf := func(v *structs.VolumeClaimStub) string { return v.AllocID }
	found, err := onlyClaim(all, "allocations", prefix, allocOf)
	if found == nil && err == nil {
		return nil, structs.NotFoundf("no allocation with an ID that begins with %q has a claim on volume %q; to see the claims: %s", prefix, volume,
			structs.CommandLine(c.Namespace(), "volume claim list -volume", volume))
	}

	return found, err
}

// findClaimID returns the claim whose ID has a prefix.
func findClaimID(ctx context.Context, c *command.Call, prefix string) (*structs.VolumeClaimStub, error) {
	filter := volumes.ClaimFilter{}
	alloc, _, complete := strings.Cut(prefix, ".")
	if complete {
		filter.AllocID = alloc
	}

	all, _, err := volumes.ListClaims(ctx, c.API, filter, nil)
	if err != nil {
		return nil, err
	}

	idOf := func(v *structs.VolumeClaimStub) string { return v.ID }
	found, err := onlyClaim(all, "claims", prefix, idOf)
	if found == nil && err == nil {
		return nil, structs.NotFoundf("no claim has an ID that begins with %q; to see the claims: %s", prefix,
			structs.CommandLine(c.Namespace(), "volume claim list"))
	}

	return found, err
}

// maxChoices bounds the claims that an error names.
const maxChoices = 10

// onlyClaim returns the claim whose name is the prefix, or the only one whose name begins with it; nil if
// there is none. The noun says what the names are, for the error about several.
func onlyClaim(
	all []*structs.VolumeClaimStub, noun, prefix string, name func(*structs.VolumeClaimStub) string,
) (only *structs.VolumeClaimStub, err error) {
	found := 0
	text := ""
	for _, v := range all {
		if name(v) == prefix {
			return v, nil
		}
		if !strings.HasPrefix(name(v), prefix) {
			continue
		}
		only = v
		found++
		if found <= maxChoices {
			text += "\n  " + name(v)
		}
	}

	if found > 1 {
		return nil, structs.Invalidf("%q may be any of %d %s:%s", prefix, found, noun, text)
	}

	return only, nil
}

// claimRelease releases the claim of an allocation on a volume.
func claimRelease(ctx context.Context, c *command.Call) error {
	return releaseFound(ctx, c, func() (*structs.VolumeClaimStub, error) {
		return findClaim(ctx, c, c.Arg(0), c.Arg(1))
	})
}

// claimDelete deletes the claim on a sticky host volume as in the dialect. For another claim it is
// claimRelease.
func claimDelete(ctx context.Context, c *command.Call) error {
	sticky, err := findStickyClaim(ctx, c, c.Arg(0))
	if err != nil {
		return err
	}
	if sticky != nil {
		return deleteStickyClaim(ctx, c, sticky)
	}
	return releaseFound(ctx, c, func() (*structs.VolumeClaimStub, error) {
		return findClaimID(ctx, c, c.Arg(0))
	})
}

// releaseFound releases the claim that find returns.
func releaseFound(ctx context.Context, c *command.Call, find func() (*structs.VolumeClaimStub, error)) error {
	o := volumes.ClaimReleaseOptions{
		DryRun: c.Bool("dry-run"),
		Force:  c.Bool("force"),
		Reason: c.String("reason"),
		By:     command.UserAtHost(),
	}

	if o.Force && !o.DryRun && o.Reason == "" {
		return command.BadUsage("-force needs a -reason")
	}

	claim, err := find()
	if err != nil {
		return err
	}

	id := claim.VolumeID
	o.AllocID = claim.AllocID

	var resp *structs.VolumeClaimReleaseResponse
	w := watch.New(c)
	on := c.API
	if !o.DryRun {
		of := Release{Volume: id, NodeID: claim.NodeID, AllocID: claim.AllocID}
		on, err = onRelease(ctx, c, w, of, &o.Shown)
		if err != nil {
			return err
		}
	}
	w.WaitFor("volume", "", id)
	report := func(ctx context.Context) { w.ReportDetach(ctx, id, claim.NodeID) }
	err = w.Request(ctx, report, func() (err error) {
		resp, err = volumes.ReleaseClaim(ctx, on, id, o)
		return err
	})
	if err != nil && ctx.Err() == nil {
		return watch.VolumeFault(ctx, c, id, err)
	}
	if err != nil {
		return err
	}

	if !o.DryRun {
		return c.Report(resp, "%s", show.OneLine(resp.Detail))
	}

	printDryRun(c, resp)
	return c.WriteOutcome(resp)
}

// printDryRun prints what a release would do.
func printDryRun(c *command.Call, resp *structs.VolumeClaimReleaseResponse) {
	if resp.Rejected != "" {
		c.Printf("It would be rejected: %s\n", show.OneLine(resp.Rejected))
	}
	printLines(c, "It would do:", resp.Steps)
	printLines(c, "Nothing proves:", resp.Unproved)
	c.Printf("Nothing was changed\n")
}

func printLines(c *command.Call, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	c.Printf("%s\n", title)
	for _, line := range lines {
		c.Printf("  - %s\n", show.OneLine(line))
	}
}
