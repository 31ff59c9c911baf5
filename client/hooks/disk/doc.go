// Package disk gives an allocation with a sticky ephemeral disk the data of the allocation that it
// replaces: the directory alloc/data, and the directory local of each task that both have.
//
// Its rules:
//
//   - Data moves when the earlier allocation has ended on its node and has released everything, and before a
//     task of the later one starts.
//   - On one node a directory is renamed into the place of the new, empty one. Each rename can be repeated.
//     So a restarted agent continues after any of them.
//   - From another node the servers pass the data on in pages (ADR 32). It arrives in a directory of its own,
//     which gets its final name when it is whole and on the disk. Then it is renamed as above.
//   - A directory that has something in it is never replaced.
//   - A file marks an allocation that has taken over its data or has given up. The node keeps the directory
//     of the earlier allocation until then.
//   - No symbolic link is followed (openat2), because tasks may have made any.
//   - Data of a node that is down stays there. An event of the tasks says so, and the allocation starts with
//     an empty disk.
//   - For data that cannot come now, because there is no space or its node cannot read it, the allocation
//     waits.
package disk
