/* devices.h: the machine's GPUs, for a state file that no run has made. */
#ifndef CASE_SHARED_DEVICES_H
#define CASE_SHARED_DEVICES_H

#include <stdbool.h>

#include "state.h"

/* shared_devices fills in the devices of a configuration, in PCI bus order, with the memory
 * that is free now. false: why says what is missing. */
bool shared_devices(struct case_shared_config *config, char *why, size_t why_size);

#endif
