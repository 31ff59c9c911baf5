// Package loop attaches images to loop devices of the kernel, finds the devices of an image, and detaches and
// resizes them. It mounts nothing and makes no images.
package loop
