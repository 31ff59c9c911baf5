// Package volumes has the loops of the leader that look after volumes by themselves: they compare rows with
// what plugins list (DriftLoop), read the health of volumes (HealthLoop) and the free space of plugins
// (CapacityLoop), make volumes larger before they are full (GrowthLoop), and take the snapshots of schedules
// (ScheduleLoop). Quiescer runs the commands of tasks around a snapshot. The calls that a row asks for are
// made by package control.
package volumes
