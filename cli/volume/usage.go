package volume

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"berth/api/show"
	"berth/api/volumes"
	"berth/cli/alloc"
	"berth/cli/command"
	"berth/structs"
	"berth/structs/storage"
)

var listCommand = command.Command{
	Name:     "list",
	Synopsis: "List volumes with their use: size, used bytes and inodes",
	Help: `
The nodes measure the volumes that they have mounted, once a minute by default
(volume_stats_interval in the client block). A volume that is mounted on
several nodes has a line for each. One that is not mounted has no use.`,
	Renders: true,
	Flags: []command.Flag{
		{
			Name:    "sort",
			Kind:    command.String,
			Value:   "order",
			Default: "name",
			Usage:   "The order: name, usage (the fullest first) or inodes",
		},
	},
	Run: volumeList,
	Examples: "berth volume list\n" +
		"berth volume list -sort usage",
}

// volumeUse is a volume, with its use on one node if a node has it mounted.
type volumeUse struct {
	Namespace string
	VolumeID  string
	PluginID  string
	State     string
	Capacity  int64
	Usage     *storage.VolumeUsage `json:",omitempty"`
	// Health is what the controllers report, nil for a healthy volume.
	Health *storage.VolumeHealth `json:",omitempty"`
}

// orders are the values of -sort. A volume without a use comes last.
var orders = map[string]func(a, b volumeUse) int{
	"name":   func(a, b volumeUse) int { return 0 }, // the order of the answer
	"usage":  fullestBy(func(u *storage.VolumeUsage) *storage.UsageAmount { return u.Bytes }),
	"inodes": fullestBy(func(u *storage.VolumeUsage) *storage.UsageAmount { return u.Inodes }),
}

func fullestBy(of func(*storage.VolumeUsage) *storage.UsageAmount) func(a, b volumeUse) int {
	percent := func(v volumeUse) float64 {
		if v.Usage == nil || of(v.Usage) == nil {
			return -1
		}
		return of(v.Usage).Percent()
	}
	return func(a, b volumeUse) int { return cmp.Compare(percent(b), percent(a)) }
}

func volumeList(ctx context.Context, c *command.Call) error {
	order, ok := orders[c.String("sort")]
	if !ok {
		return command.BadUsage("-sort takes name, usage or inodes")
	}

	rows, _, err := volumes.List(ctx, c.API, volumes.Filter{}, nil)
	err = c.CheckFound(ctx, len(rows), err)
	if err != nil {
		return err
	}
	all, err := volumes.ListUsage(ctx, c.API, nil)
	if err != nil {
		return err
	}

	sheet := useSheet
	sheet.Order = order
	err = sheet.List(c, "volume", usesOf(rows, all))
	warn(c, all.Warnings)
	return err
}

// usesOf joins volumes with their uses.
func usesOf(
	volumes []*structs.CSIVolumeListStub, all *storage.VolumeUsageResponse,
) (list []volumeUse) {
	health := map[storage.UsageKey]*storage.VolumeHealth{}
	for _, h := range all.Health {
		health[h.Key()] = h
	}
	byVolume := map[storage.UsageKey][]*storage.VolumeUsage{}
	for _, u := range all.Usages {
		k := storage.UsageKey{Namespace: u.Namespace, VolumeID: u.VolumeID}
		byVolume[k] = append(byVolume[k], u)
	}

	for _, v := range volumes {
		row := volumeUse{
			Namespace: v.Namespace,
			VolumeID:  v.ID,
			PluginID:  v.PluginID,
			State:     v.State,
			Health:    health[storage.UsageKey{Namespace: v.Namespace, VolumeID: v.ID}],
		}
		found := byVolume[storage.UsageKey{Namespace: v.Namespace, VolumeID: v.ID}]
		if len(found) == 0 {
			list = append(list, row)
		}
		for _, u := range found {
			row.Usage = u
			list = append(list, row)
		}
	}
	return list
}

var useSheet = command.Sheet[volumeUse]{
	Titles: "ID|Plugin|State|" + useTitles,
	Row: func(c *command.Call, v volumeUse) []string {
		cells := useCells(v.Usage)
		last := len(cells) - 1
		if cells[last] == "" && v.Health != nil {
			cells[last] = alloc.VolumeCondition(v.Health.Condition)
		}
		return slices.Concat([]string{v.VolumeID, v.PluginID, v.State}, cells)
	},
}

const useTitles = "Node|Size|Used|Available|Used %|Inodes %|Measured|Condition"

// useCells are the cells of useTitles.
func useCells(u *storage.VolumeUsage) []string {
	if u == nil {
		return make([]string, 8)
	}
	bytes := u.Bytes
	if bytes == nil {
		bytes = &storage.UsageAmount{}
	}
	return []string{
		show.ShortID(u.NodeID),
		show.Size(bytes.Total),
		show.Size(bytes.Used),
		show.Size(bytes.Available),
		percentText(u.Bytes),
		percentText(u.Inodes),
		measured(u),
		useRemark(u),
	}
}

// measured tells how old the amounts are. A node has none for the first moments of a mount.
func measured(u *storage.VolumeUsage) string {
	if u.Time == 0 && u.Error == "" {
		return "not yet"
	}
	return show.Age(u.Time)
}

func percentText(a *storage.UsageAmount) string {
	if a == nil || a.Used+a.Available <= 0 {
		return ""
	}
	return fmt.Sprintf("%.0f%%", a.Percent())
}

// useRemark tells what the plugin says of the volume, or why it was not measured.
func useRemark(u *storage.VolumeUsage) string {
	ill := alloc.IllMount(u)
	switch {
	case ill != "":
		return show.OneLine(ill)
	case u.Condition != nil && u.Condition.Abnormal:
		return alloc.VolumeCondition(u.Condition)
	case u.Error != "":
		return show.OneLine("not measured: " + u.Error)
	}
	return alloc.VolumeCondition(u.Condition)
}

var nodeUseSheet = command.Sheet[*storage.VolumeUsage]{
	Titles: useTitles,
	Row:    func(_ *command.Call, u *storage.VolumeUsage) []string { return useCells(u) },
}

// printUse shows the use of one volume. The rest of the status does not depend on the nodes, so a failure is
// a warning.
func printUse(ctx context.Context, c *command.Call, v *structs.CSIVolumeDetail) {
	all, err := volumes.Usage(ctx, c.API, v.ID, nil)
	if err != nil {
		warn(c, []string{"the use of the volume is not known: " + err.Error()})
		return
	}
	nodeUseSheet.Section(c, "Use", all.Usages)
	printTrims(c, all.Usages)
	alloc.MountSheet.Section(c, "Mounts", alloc.MountRows(all.Usages))
	alloc.PrintHealthReports(c, all)
	warn(c, all.Warnings)
}

func warn(c *command.Call, warnings []string) {
	for _, text := range warnings {
		fmt.Fprintf(c.Err, "Warning: %s\n", show.OneLine(text))
	}
}
