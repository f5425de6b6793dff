// A CUDA device for a torch that was built without CUDA. Its memory is the host's, and each of its operations is the
// CPU's. A graph records operations while it is captured and runs them again, on the same memory, with each replay.
// Nothing is asynchronous, and no time that it takes means anything.

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <set>

namespace {
using namespace c10;
using at::Tensor;
using torch::jit::Stack;

const Device DEVICE(DeviceType::CUDA, 0);

// ---- Memory, and the graph that is captured -------------------------------------------------------------------------

std::atomic<int64_t> num_allocated = 0, max_allocated = 0;  // bytes

struct Block {
    void* memory;
    int64_t size;
    Block(size_t size) : memory(aligned_alloc(64, (size + 127) / 64 * 64)), size(size) {
        memset(memory, 0xff, (size + 127) / 64 * 64);  // NaN, which shows where memory is read that was never written
        num_allocated += size;
        max_allocated = std::max(max_allocated.load(), num_allocated.load());
    }
    ~Block() {
        num_allocated -= size;
        free(memory);
    }
};

struct Graph {
    std::vector<std::function<void()>> work;
    std::vector<std::function<void()>> undo;  // a capture computes nothing: what it wrote is taken back at its end
    std::vector<std::shared_ptr<Block>> blocks;  // what was allocated in the capture stays the graph's
    bool is_valid = true;
};
thread_local Graph* capture = nullptr;
thread_local bool forbids_synchronisation = false;

struct DeviceAllocator : Allocator {
    DataPtr allocate(size_t size) override {
        auto block = std::make_shared<Block>(size);
        if (capture) capture->blocks.push_back(block);
        void* memory = block->memory;
        auto owner = new std::shared_ptr<Block>(std::move(block));
        return {memory, owner, [](void* x) { delete static_cast<std::shared_ptr<Block>*>(x); }, DEVICE};
    }
    void copy_data(void* target, const void* source, size_t size) const override { memcpy(target, source, size); }
};
DeviceAllocator device_allocator;

// The same memory as a tensor of the host or of the device.
Tensor with_memory_of(const Tensor& tensor, DispatchKey key, Device device, Allocator* allocator) {
    const Storage& storage = tensor.storage();
    DataPtr data(storage.mutable_data(), new Storage(storage), [](void* x) { delete static_cast<Storage*>(x); }, device);
    Storage shared(Storage::use_byte_size_t(), storage.nbytes(), std::move(data), allocator, /*resizable=*/true);
    Tensor made = at::detail::make_tensor<TensorImpl>(std::move(shared), DispatchKeySet(key), tensor.dtype());
    auto impl = made.unsafeGetTensorImpl();
    impl->set_sizes_and_strides(tensor.sizes(), tensor.strides());
    impl->set_storage_offset(tensor.storage_offset());
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
    return made;
}

Tensor on_host(const Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_cuda()) return tensor;
    return with_memory_of(tensor, DispatchKey::CPU, kCPU, GetCPUAllocator());
}

Tensor on_device(const Tensor& tensor) {
    if (!tensor.defined() || tensor.is_cuda()) return tensor;
    return with_memory_of(tensor, DispatchKey::CUDA, DEVICE, &device_allocator);
}

void synchronise(const char* cause) {
    if (capture) capture->is_valid = false;
    TORCH_CHECK(!capture, "CUDA error: operation not permitted when stream is capturing: ", cause);
    TORCH_CHECK(!forbids_synchronisation, "called a synchronizing CUDA operation: ", cause);
}

void save_contents(const Tensor& tensor) {
    if (!capture || !tensor.defined()) return;
    Storage storage = tensor.storage();
    std::string before(static_cast<const char*>(storage.data()), storage.nbytes());
    capture->undo.push_back([=] { memcpy(storage.mutable_data(), before.data(), before.size()); });
}

void replay(int64_t graph) {
    InferenceMode mode;
    for (auto& work : reinterpret_cast<Graph*>(graph)->work) work();
}

// ---- Operations -----------------------------------------------------------------------------------------------------

// Those whose result, or its shape, the host has to wait for.
const std::set<std::string> SYNCHRONISING = {
    "aten::_local_scalar_dense", "aten::equal", "aten::is_nonzero", "aten::nonzero", "aten::masked_select", "aten::_unique2",
};

IValue converted(const IValue& value, Tensor (*convert)(const Tensor&)) {
    if (value.isTensor()) return convert(value.toTensor());
    if (value.isTensorList()) {
        List<Tensor> list;
        for (const Tensor& tensor : value.toTensorVector()) list.push_back(convert(tensor));
        return list;
    }
    if (value.isOptionalTensorList()) {
        List<std::optional<Tensor>> list;
        for (const auto& tensor : value.toOptionalTensorVector())
            list.push_back(tensor ? std::optional<Tensor>(convert(*tensor)) : tensor);
        return list;
    }
    return value.isDevice() ? IValue(Device(kCPU)) : value;
}

std::vector<Tensor> tensors_of(const IValue& value) {
    if (value.isTensor()) return {value.toTensor()};
    return value.isTensorList() ? value.toTensorVector() : std::vector<Tensor>();
}

bool is_written(const Argument& argument) { return argument.alias_info() && argument.alias_info()->isWrite(); }

// The results that are new, and not an argument that was written to.
std::vector<Tensor> new_tensors(const FunctionSchema& schema, const Stack& results) {
    std::vector<Tensor> made;
    for (size_t i = 0; i < results.size(); i++)
        if (!is_written(schema.returns()[i]))
            for (const Tensor& tensor : tensors_of(results[i])) made.push_back(tensor);
    return made;
}

// What the CPU computes of tensors with the same memory.
void run_on_host(const OperatorHandle& op, Stack* stack) {
    const FunctionSchema& schema = op.schema();
    const size_t count = schema.arguments().size();
    const std::string& name = schema.operator_name().name;
    if (SYNCHRONISING.count(name)) synchronise(name.c_str());
    const Stack given(stack->end() - count, stack->end());
    Stack inputs;
    for (size_t i = 0; i < count; i++) {
        inputs.push_back(converted(given[i], on_host));
        if (is_written(schema.arguments()[i]))
            for (const Tensor& tensor : tensors_of(given[i])) save_contents(tensor);
    }
    Stack computed = inputs;
    op.callBoxed(&computed);
    torch::jit::drop(*stack, count);
    for (size_t i = 0; i < count; i++) {
        if (!is_written(schema.arguments()[i])) continue;
        const auto targets = tensors_of(given[i]), sources = tensors_of(inputs[i]);
        for (size_t k = 0; k < targets.size(); k++) {
            if (!targets[k].defined() || targets[k].sizes() == sources[k].sizes()) continue;
            const Tensor resized = on_device(sources[k]);  // an output that was given without its size
            targets[k].unsafeGetTensorImpl()->set_storage_keep_dtype(resized.storage());
            targets[k].unsafeGetTensorImpl()->set_sizes_and_strides(resized.sizes(), resized.strides());
        }
    }
    for (size_t i = 0; i < computed.size(); i++) {
        IValue result = converted(computed[i], on_device);
        for (size_t k = 0; k < count && is_written(schema.returns()[i]); k++)
            if (is_written(schema.arguments()[k]) && *schema.arguments()[k].alias_info() == *schema.returns()[i].alias_info())
                result = given[k];
        stack->push_back(std::move(result));
    }
    if (!capture) return;
    capture->work.push_back([=, targets = new_tensors(schema, computed)] {
        Stack again = inputs;
        op.callBoxed(&again);
        const auto sources = new_tensors(op.schema(), again);
        for (size_t k = 0; k < targets.size(); k++) {
            if (!targets[k].defined() || sources[k].data_ptr() == targets[k].data_ptr()) continue;
            TORCH_CHECK(sources[k].sizes() == targets[k].sizes(), op.schema().operator_name().name, " has another shape");
            targets[k].copy_(sources[k]);
        }
    });
}

Tensor& copy(Tensor& self, const Tensor& source, bool non_blocking) {
    if (!self.is_cuda() && !non_blocking) synchronise("a copy to the host");
    save_contents(self);
    Tensor target = on_host(self), from = on_host(source);
    target.copy_(from);
    if (capture) capture->work.push_back([=]() mutable { target.copy_(from); });
    return self;
}

void check(const std::optional<Device>& device) {
    TORCH_CHECK(!device || device->index() < 1, "CUDA error: invalid device ordinal");
}

Tensor empty(SymIntArrayRef size, std::optional<ScalarType> dtype, std::optional<Layout>, std::optional<Device> device,
             std::optional<bool>, std::optional<MemoryFormat> format) {
    check(device);
    return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &device_allocator, DispatchKeySet(DispatchKey::CUDA),
                                     dtype_or_default(dtype), format);
}

Tensor empty_strided(SymIntArrayRef size, SymIntArrayRef stride, std::optional<ScalarType> dtype, std::optional<Layout>,
                     std::optional<Device> device, std::optional<bool>) {
    check(device);
    return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
                                             &device_allocator, DispatchKeySet(DispatchKey::CUDA), dtype_or_default(dtype));
}

Tensor view(const Tensor& self, SymIntArrayRef size) { return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size)); }

Tensor as_strided(const Tensor& self, SymIntArrayRef size, SymIntArrayRef stride, std::optional<SymInt> offset) {
    const auto start = offset ? std::make_optional(offset->expect_int()) : std::nullopt;
    return at::native::as_strided_tensorimpl(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), start);
}

Tensor reshape_alias(const Tensor& self, SymIntArrayRef size, SymIntArrayRef stride) {
    return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
}

Tensor& set_storage(Tensor& self, Storage source, SymInt offset, SymIntArrayRef size, SymIntArrayRef stride) {
    auto impl = self.unsafeGetTensorImpl();
    impl->set_storage_keep_dtype(std::move(source));
    impl->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
    impl->set_storage_offset(offset.expect_int());
    return self;
}

Tensor& set_whole_storage(Tensor& self, Storage source) {
    const std::vector<SymInt> size{SymInt(int64_t(source.nbytes() / self.itemsize()))}, stride{SymInt(1)};
    return set_storage(self, source, 0, size, stride);
}

// The cell of an LSTM, of which the CPU has no kernel. Its workspace is what the four gates let through.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                             const std::optional<Tensor>& input_bias,
                                             const std::optional<Tensor>& hidden_bias) {
    Tensor gates = input_gates + hidden_gates;
    if (input_bias && input_bias->defined()) gates = gates + *input_bias + *hidden_bias;
    const auto part = gates.chunk(4, 1);
    const Tensor in = part[0].sigmoid(), forget = part[1].sigmoid(), cell = part[2].tanh(), out = part[3].sigmoid();
    const Tensor cy = forget * cx + in * cell;
    return {out * cy.tanh(), cy, at::cat({in, forget, cell, out}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const std::optional<Tensor>& grad_hy,
                                                      const std::optional<Tensor>& grad_cy, const Tensor& cx,
                                                      const Tensor& cy, const Tensor& workspace, bool has_bias) {
    const auto part = workspace.chunk(4, 1);
    const Tensor &in = part[0], &forget = part[1], &cell = part[2], &out = part[3], squashed = cy.tanh();
    const Tensor grad_h = grad_hy && grad_hy->defined() ? *grad_hy : at::zeros_like(cy);
    Tensor grad_c = grad_h * out * (1 - squashed * squashed);
    if (grad_cy && grad_cy->defined()) grad_c = grad_c + *grad_cy;
    const Tensor grad_gates = at::cat({grad_c * cell * in * (1 - in), grad_c * cx * forget * (1 - forget),
                                       grad_c * in * (1 - cell * cell), grad_h * squashed * out * (1 - out)}, 1);
    return {grad_gates, grad_c * forget, has_bias ? grad_gates.sum(0) : Tensor()};
}

// ---- What torch asks of its devices ---------------------------------------------------------------------------------

struct Guard : impl::NoOpDeviceGuardImpl<DeviceType::CUDA> {
    Device exchangeDevice(Device) const override { return DEVICE; }
    Device getDevice() const override { return DEVICE; }
    Stream getStream(Device) const noexcept override { return Stream(Stream::DEFAULT, DEVICE); }
    Stream getNewStream(Device, int) const override { return Stream(Stream::DEFAULT, DEVICE); }
    Stream exchangeStream(Stream) const noexcept override { return Stream(Stream::DEFAULT, DEVICE); }
    void record(void**, const Stream&, const DeviceIndex, const EventFlag) const override {}
    void block(void*, const Stream&) const override {}
    bool queryEvent(void*) const override { return true; }
    void destroyEvent(void*, const DeviceIndex) const noexcept override {}
    void recordDataPtrOnStream(const DataPtr&, const Stream&) const override {}
};
impl::DeviceGuardImplRegistrar guard(DeviceType::CUDA, new Guard());

struct Hooks : at::CUDAHooksInterface {
    explicit Hooks(at::CUDAHooksArgs) {}
    void init() const override {}
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return true; }
    bool hasCUDA() const override { return true; }
    bool hasPrimaryContext(DeviceIndex) const override { return true; }
    DeviceIndex current_device() const override { return 0; }
    DeviceIndex deviceCount() const override { return 1; }
    DeviceIndex getCurrentDevice() const override { return 0; }
    void setCurrentDevice(DeviceIndex) const override {}
    DeviceIndex exchangeDevice(DeviceIndex) const override { return 0; }
    DeviceIndex maybeExchangeDevice(DeviceIndex) const override { return 0; }
    int getNumGPUs() const override { return 1; }
    Allocator* getPinnedMemoryAllocator() const override { return GetCPUAllocator(); }
    Allocator* getCUDADeviceAllocator() const override { return &device_allocator; }
    const at::Generator& getDefaultGenerator(DeviceIndex) const override { return at::detail::getDefaultCPUGenerator(); }
    at::Generator getNewGenerator(DeviceIndex) const override { return at::detail::createCPUGenerator(); }
    void deviceSynchronize(DeviceIndex) const override {}
};
}  // namespace

namespace at {
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, ::Hooks)
}

TORCH_LIBRARY_IMPL(_, CUDA, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>()); }

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
    library.impl("empty.memory_format", &empty);
    library.impl("empty_strided", &empty_strided);
    library.impl("copy_", &copy);
    library.impl("view", &view);
    library.impl("as_strided", &as_strided);
    library.impl("_reshape_alias", &reshape_alias);
    library.impl("unfold", &at::native::unfold);
    library.impl("_thnn_fused_lstm_cell", &lstm_cell);
    library.impl("_thnn_fused_lstm_cell_backward_impl", &lstm_cell_backward);
    library.impl("set_.source_Storage", &set_whole_storage);
    library.impl("set_.source_Storage_storage_offset", &set_storage);
}

TORCH_LIBRARY(emulated_cuda, library) {
    library.def("on_host(Tensor tensor) -> Tensor", [](const Tensor& tensor) { return on_host(tensor); });
    library.def("replay(int graph) -> ()", &replay);
    library.def("synchronise() -> ()", [] { synchronise("synchronize"); });
}

extern "C" {
void* begin_capture() { return capture = new Graph(); }

bool end_capture() {  // whether there is a graph now
    Graph* graph = capture;
    capture = nullptr;
    for (auto undo = graph->undo.rbegin(); undo != graph->undo.rend(); ++undo) (*undo)();
    graph->undo.clear();
    return graph->is_valid;
}

void add_work(void (*work)()) { capture->work.push_back(work); }
void delete_graph(void* graph) { delete static_cast<Graph*>(graph); }
void forbid_synchronisation(bool value) { forbids_synchronisation = value; }
int64_t bytes_allocated() { return num_allocated; }
int64_t max_bytes_allocated() { return max_allocated; }
void reset_max_bytes_allocated() { max_allocated = num_allocated.load(); }
}
