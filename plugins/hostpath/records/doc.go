// Package records keeps the records of volumes and snapshots in the data directory, beside their data. A
// record is durable before the driver acts on it. The package neither makes nor mounts a volume.
package records
