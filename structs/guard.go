package structs

import "time"

// AttrUnguarded returns the attribute of a node with the reason for which its guard cannot end the tasks of a
// driver. A node of which it can has no such attribute.
func AttrUnguarded(driver string) string { return "driver." + driver + ".unguarded" }

// GuardKillTime is the time after the end of its lease in which a node ends the tasks of a guarded claim and
// unmounts their volumes: processes that the kernel can end, and file systems that answer. The grace of the
// servers is longer than it (CSIClaim.Guarded).
const GuardKillTime = 5 * time.Second
